package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// PersistentPodStateSpec says which workload's pods return, and how close.
//
// +kubebuilder:validation:XValidation:rule="has(self.requiredPersistentTopology) || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)",message="requiredPersistentTopology or preferredPersistentTopology must be set"
type PersistentPodStateSpec struct {
	// targetRef names the workload whose pods return. Set by the user; it cannot be
	// changed, since the records in the status belong to it.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef is immutable"
	TargetReference v1beta1.TargetReference `json:"targetRef"`

	// persistentPodAnnotations are the annotations that are recorded with a pod and put
	// back on its successor. Set by the user; empty means none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PersistentPodAnnotations []v1beta1.PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`

	// requiredPersistentTopology lists node labels whose recorded values a successor's
	// node must have. A pod waits rather than go elsewhere. Set by the user.
	// +optional
	RequiredPersistentTopology *NodeTopologyTerm `json:"requiredPersistentTopology,omitempty"`

	// preferredPersistentTopology lists node labels whose recorded values a successor's
	// node should have, with weights. Set by the user.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	PreferredPersistentTopology []PreferredTopologyTerm `json:"preferredPersistentTopology,omitempty"`

	// persistentPodStateRetentionPolicy says what ends a record: WhenScaled (any other word
	// acts like it) or WhenDeleted. Where it is not set it is WhenScaled, but a record that
	// ends outlives its pod for as long as the pod's addresses may be reserved. Set by the
	// user.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PersistentPodStateRetentionPolicy string `json:"persistentPodStateRetentionPolicy,omitempty"`
}

// NodeTopologyTerm is a set of node labels that together describe a place.
type NodeTopologyTerm struct {
	// nodeTopologyKeys are the keys of the node labels; all of them count.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	NodeTopologyKeys []string `json:"nodeTopologyKeys"`
}

// PreferredTopologyTerm is a place with the weight of the wish for it.
type PreferredTopologyTerm struct {
	// weight of the wish in the scheduler's score, 1 to 100.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// preference is the place wished for.
	// +required
	Preference NodeTopologyTerm `json:"preference"`
}

// PersistentPodState brings the rebuilt pods of one workload back to their place.
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

	// spec says which workload's pods return, and how close.
	// +required
	Spec PersistentPodStateSpec `json:"spec"`

	// status holds the records.
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
