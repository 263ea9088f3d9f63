package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// ConditionExhausted is true while every address of a range set is attached or
	// reserved.
	ConditionExhausted = "Exhausted"
	// ConditionShareReached is true while reservations hold as much of the pool as they
	// may.
	ConditionShareReached = "ShareReached"

	// ReasonAddressesFree is that of an Exhausted that is false.
	ReasonAddressesFree = "AddressesFree"
	// ReasonRangesUnknown is that of an Exhausted that cannot be told.
	ReasonRangesUnknown = "RangesUnknown"
	// ReasonNoneFree is that of an Exhausted that is true.
	ReasonNoneFree = "NoneFree"
	// ReasonShareLeft is that of a ShareReached that is false.
	ReasonShareLeft = "ShareLeft"
	// ReasonNoneAllowed is that of a ShareReached that is false because nothing may be
	// reserved.
	ReasonNoneAllowed = "NoneAllowed"
	// ReasonShareUsedUp is that of a ShareReached that is true.
	ReasonShareUsedUp = "ShareUsedUp"
)

// NodeIPPoolStatus counts the addresses of one network on one node. A pod of a
// network with several range sets takes one address of each, and counts once; the
// smallest set is the size of the pool.
type NodeIPPoolStatus struct {
	// node is the name of the node. Written by its agent, as every field here is.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// network is the name of the CNI network.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Network string `json:"network"`

	// ranges lists the range sets, first to last address.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Ranges []string `json:"ranges,omitempty"`

	// total is how many pods the pool has addresses for.
	// +required
	Total int64 `json:"total"`

	// attached is how many pods hold addresses.
	// +required
	Attached int64 `json:"attached"`

	// reserved is how many owners have addresses waiting for them.
	// +required
	Reserved int64 `json:"reserved"`

	// share is for how many owners addresses may be reserved at a time; unset until a pod
	// was started under a version that bounds it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Share *int64 `json:"share,omitempty"`

	// free is how many more pods the pool has addresses for.
	// +required
	Free int64 `json:"free"`

	// conditions say what is scarce: Exhausted and ShareReached.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeIPPool shows how full a network's pool on a node is.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="NODE",type=string,JSONPath=`.status.node`
// +kubebuilder:printcolumn:name="NETWORK",type=string,JSONPath=`.status.network`
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="ATTACHED",type=integer,JSONPath=`.status.attached`
// +kubebuilder:printcolumn:name="RESERVED",type=integer,JSONPath=`.status.reserved`
// +kubebuilder:printcolumn:name="SHARE",type=integer,JSONPath=`.status.share`
// +kubebuilder:printcolumn:name="FREE",type=integer,JSONPath=`.status.free`
type NodeIPPool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the object's own.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is what the node's agent reports. There is nothing to ask for in a spec.
	// +required
	Status NodeIPPoolStatus `json:"status"`
}

// NodeIPPoolList is a list of NodeIPPools.
//
// +kubebuilder:object:root=true
type NodeIPPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the objects.
	// +required
	Items []NodeIPPool `json:"items"`
}
