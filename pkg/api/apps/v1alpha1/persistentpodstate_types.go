package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// PersistentPodStateSpec names a workload and the topology to which its rebuilt pods return.
//
// +kubebuilder:validation:XValidation:rule="has(self.requiredPersistentTopology) || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)",message="requiredPersistentTopology or preferredPersistentTopology must be set"
type PersistentPodStateSpec struct {
	// targetRef names the workload, in the namespace of this object, whose pods return. Written
	// by the user; immutable, because the records in the status belong to this workload.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef is immutable"
	TargetReference v1beta1.TargetReference `json:"targetRef"`

	// persistentPodAnnotations are the annotations that are recorded with a pod and added to
	// the rebuilt pod. Written by the user; default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PersistentPodAnnotations []v1beta1.PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`

	// requiredPersistentTopology lists node labels whose recorded values the node of the
	// rebuilt pod must have. The pod stays Pending when no such node can take it. Written by
	// the user; this field or preferredPersistentTopology must be set.
	// +optional
	RequiredPersistentTopology *NodeTopologyTerm `json:"requiredPersistentTopology,omitempty"`

	// preferredPersistentTopology lists node labels whose recorded values the node of the
	// rebuilt pod should have, with weights. Written by the user; this field or
	// requiredPersistentTopology must be set.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	PreferredPersistentTopology []PreferredTopologyTerm `json:"preferredPersistentTopology,omitempty"`

	// persistentPodStateRetentionPolicy says what ends the record of a pod. WhenScaled: the
	// ordinal is scaled away. WhenDeleted: the workload is deleted. Any other value acts like
	// WhenScaled. Default: like WhenScaled, but the record stays for as long as the pod's
	// addresses may be reserved. Written by the user.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PersistentPodStateRetentionPolicy string `json:"persistentPodStateRetentionPolicy,omitempty"`
}

// NodeTopologyTerm is a set of node labels. The nodes with equal values of all labels are one
// place.
type NodeTopologyTerm struct {
	// nodeTopologyKeys are the keys of the node labels, all of which must match. Written by the
	// user.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	NodeTopologyKeys []string `json:"nodeTopologyKeys"`
}

// PreferredTopologyTerm is a preferred place with a weight.
type PreferredTopologyTerm struct {
	// weight is added to the scheduler's score of nodes in the place, 1 to 100. Written by the
	// user.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// preference is the preferred place. Written by the user.
	// +required
	Preference NodeTopologyTerm `json:"preference"`
}

// PersistentPodState makes the rebuilt pods of one workload return to the place they had.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pps
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.targetRef.kind`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRef.name`
// +kubebuilder:printcolumn:name="Recording",type=string,JSONPath=`.status.conditions[?(@.type=="Recording")].status`
// +kubebuilder:printcolumn:name="Why",type=string,JSONPath=`.status.conditions[?(@.type=="Recording")].reason`
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.conditions[?(@.type=="Waiting")].status`
// +kubebuilder:printcolumn:name="Kept",type=integer,JSONPath=`.status.rebuilds.kept`
// +kubebuilder:printcolumn:name="Moved",type=integer,JSONPath=`.status.rebuilds.moved`
// +kubebuilder:printcolumn:name="Lost",type=integer,JSONPath=`.status.rebuilds.lost`
// +kubebuilder:printcolumn:name="Last",type=string,priority=1,JSONPath=`.status.rebuilds.last.pod`
// +kubebuilder:printcolumn:name="Cause",type=string,priority=1,JSONPath=`.status.rebuilds.last.cause`
// +kubebuilder:printcolumn:name="Required",type=string,priority=1,JSONPath=`.spec.requiredPersistentTopology.nodeTopologyKeys`
// +kubebuilder:printcolumn:name="Preferred",type=string,priority=1,JSONPath=`.spec.preferredPersistentTopology[*].preference.nodeTopologyKeys`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PersistentPodState struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the workload and the topology. Written by the user, or generated from
	// annotations of the workload.
	// +required
	Spec PersistentPodStateSpec `json:"spec"`

	// status holds the recorded places of the pods. Written by the controller.
	// +optional
	Status v1beta1.PersistentPodStateStatus `json:"status,omitzero"`
}

// PersistentPodStateList is a list of PersistentPodStates.
//
// +kubebuilder:object:root=true
type PersistentPodStateList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects of the list.
	// +required
	Items []PersistentPodState `json:"items"`
}
