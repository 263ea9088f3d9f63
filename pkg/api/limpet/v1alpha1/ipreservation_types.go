package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IPState says whether a pod uses the addresses or they are reserved.
//
// +kubebuilder:validation:Enum=Attached;Reserved
type IPState string

const (
	// IPAttached is the state of addresses that a running pod uses.
	IPAttached IPState = "Attached"
	// IPReserved is the state of addresses that are kept for a pod that has ended.
	IPReserved IPState = "Reserved"
)

// IPReservationStatus says which addresses are kept for which pod.
type IPReservationStatus struct {
	// node is the name of the node that holds the addresses. Written by the agent of the node,
	// like all fields of the status.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// network is the name of the CNI network.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Network string `json:"network"`

	// interface is the name of the pod's interface.
	// +required
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface"`

	// pod is the name of the pod, which is in the namespace of this object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`

	// podUID is the UID of the running pod, or of the pod that has ended.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	PodUID string `json:"podUID,omitempty"`

	// ips are the addresses of all families, separated by commas.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	IPs string `json:"ips"`

	// state is Attached while the pod runs and Reserved after its end.
	// +required
	State IPState `json:"state"`

	// retainMinutes is how long the addresses stay reserved after the pod has ended, in
	// minutes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RetainMinutes int32 `json:"retainMinutes,omitempty"`

	// until is when the reservation ends; unset while the pod runs.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// left is not written any more, but read in objects of earlier agents: it was the remaining time of the
	// reservation at the last write. until is the end.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Left string `json:"left,omitempty"`
}

// IPReservation shows the addresses of a pod that asked for retention.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=ipr
// +kubebuilder:printcolumn:name="POD",type=string,JSONPath=`.status.pod`
// +kubebuilder:printcolumn:name="NODE",type=string,JSONPath=`.status.node`
// +kubebuilder:printcolumn:name="IPS",type=string,JSONPath=`.status.ips`
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="UNTIL",type=string,JSONPath=`.status.until`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type IPReservation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is written by the agent of the node. There is no spec: users do not write
	// IPReservations.
	// +required
	Status IPReservationStatus `json:"status"`
}

// IPReservationList is a list of IPReservations.
//
// +kubebuilder:object:root=true
type IPReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the objects of the list.
	// +required
	Items []IPReservation `json:"items"`
}
