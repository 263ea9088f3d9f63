package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RetentionPolicy says which event ends the record of a pod.
type RetentionPolicy string

const (
	// RetainWhenScaled drops a pod's record when its ordinal is scaled away. Unknown
	// values, which v1alpha1 allows, act like it.
	RetainWhenScaled RetentionPolicy = "WhenScaled"
	// RetainWhenDeleted keeps the records over scaling; only the end of the workload
	// ends them.
	RetainWhenDeleted RetentionPolicy = "WhenDeleted"
)

// PersistentPodStateSpec says which workload's pods return, and how close.
//
// +kubebuilder:validation:XValidation:rule="has(self.requiredPersistentTopology) || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)",message="requiredPersistentTopology or preferredPersistentTopology must be set"
type PersistentPodStateSpec struct {
	// targetRef names the workload whose pods return. Set by the user; it cannot be
	// changed, since the records in the status belong to it.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef is immutable"
	TargetReference TargetReference `json:"targetRef"`

	// persistentPodAnnotations are the annotations that are recorded with a pod and put
	// back on its successor. Set by the user; empty means none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PersistentPodAnnotations []PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`

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

	// persistentPodStateRetentionPolicy says what ends a record: WhenScaled or WhenDeleted.
	// Where it is not set it is WhenScaled, but a record that ends outlives its pod for as
	// long as the pod's addresses may be reserved. Set by the user.
	// +optional
	// +kubebuilder:validation:Enum=WhenScaled;WhenDeleted
	PersistentPodStateRetentionPolicy RetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`
}

// TargetReference names one workload in the object's namespace.
type TargetReference struct {
	// apiVersion is the group and version of the workload, such as apps/v1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`

	// kind of the workload, such as StatefulSet.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the workload.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// PersistentPodAnnotation names one annotation to record.
type PersistentPodAnnotation struct {
	// key of the annotation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
}

// NodeTopologyTerm is a set of node labels that together describe a place.
type NodeTopologyTerm struct {
	// keys of the node labels; all of them count.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	Keys []string `json:"keys"`
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

// PersistentPodStateStatus is what the controller remembers.
type PersistentPodStateStatus struct {
	// observedGeneration is the generation of the spec that the records were made for.
	// Written by the controller.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`

	// podStates maps the name of a pod to the place it was last Ready at. Written by the
	// controller.
	// ---
	// It is one value to field management: the API server's bookkeeping of each entry would
	// be more than half of what a record costs.
	// +mapType=atomic
	// +optional
	PodStates map[string]PodState `json:"podStates,omitempty"`

	// rebuilds counts what became of the pods that came back, and tells of the last one.
	// Written by the controller together with the records.
	// +optional
	Rebuilds *Rebuilds `json:"rebuilds,omitempty"`

	// conditions say whether this object does its work, Recording, and whether pods cannot
	// go where they must, Waiting. Written by the controller.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Outcome says what became of a pod that was rebuilt.
//
// +kubebuilder:validation:Enum=Kept;Moved;Lost
type Outcome string

const (
	// Kept means the same node and the same addresses.
	Kept Outcome = "Kept"
	// Moved means another node.
	Moved Outcome = "Moved"
	// Lost means the same node, but other addresses.
	Lost Outcome = "Lost"
)

// Rebuilds counts the rebuilds of a target's pods by outcome.
type Rebuilds struct {
	// kept is how many came back to their node and got their addresses back.
	// +required
	Kept int64 `json:"kept"`

	// moved is how many became Ready on another node.
	// +required
	Moved int64 `json:"moved"`

	// lost is how many came back to their node and got other addresses.
	// +required
	Lost int64 `json:"lost"`

	// last is the most recent rebuild.
	// +optional
	Last *Rebuild `json:"last,omitempty"`
}

// Rebuild tells what became of one pod.
type Rebuild struct {
	// pod is the name of the pod.
	// +required
	Pod string `json:"pod"`

	// outcome is Kept, Moved or Lost.
	// +required
	Outcome Outcome `json:"outcome"`

	// cause is why a pod was not kept, in one word; absent for one that was.
	// +optional
	Cause string `json:"cause,omitempty"`

	// message is the cause in a sentence.
	// +optional
	Message string `json:"message,omitempty"`

	// from is where the pod was before.
	// +required
	From Place `json:"from"`

	// to is where the pod is now.
	// +required
	To Place `json:"to"`

	// time is when the controller saw the pod Ready again.
	// +required
	Time metav1.Time `json:"time"`
}

// Place is where a pod runs and under which addresses.
type Place struct {
	// nodeName is the name of the node.
	// +required
	NodeName string `json:"nodeName"`

	// ips are the addresses, with commas between them.
	// +optional
	IPs string `json:"ips,omitempty"`
}

// PodState is the place of one pod and what else is put back on its successor.
type PodState struct {
	// uid is the UID of the pod that was last Ready; by it the controller knows a
	// rebuilt pod from the one before. Written by the controller.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// recordedAt is when the controller first saw that pod Ready. A life of the pod that
	// had addresses elsewhere after it is a later one. Written by the controller.
	// +optional
	RecordedAt *metav1.Time `json:"recordedAt,omitempty"`

	// formerUIDs are the UIDs of pods of this name that were Ready on other nodes before,
	// the last ones. What such a node still keeps for them is out of date. Written by the
	// controller.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	FormerUIDs []types.UID `json:"formerUIDs,omitempty"`

	// ips are the addresses that the pod had, with commas between them. Written by the
	// controller, to compare them with those of the next pod.
	// +optional
	IPs string `json:"ips,omitempty"`

	// nodeName is the node on which the pod was last Ready.
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// nodeTopologyLabels are the values that the node had for the wanted keys.
	// +optional
	NodeTopologyLabels map[string]string `json:"nodeTopologyLabels,omitempty"`

	// annotations are the values that the pod had for the wanted annotations.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// retainSeconds is for how long the pod asked, by its own annotation, that its
	// addresses stay reserved after its end. Written by the controller; 0 when it did not.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RetainSeconds int32 `json:"retainSeconds,omitempty"`

	// expiresAt is when the record ends. Written by the controller when the pod is not
	// wanted any more, removed when it is wanted again.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// waiting is there while the required place does not take the pod. Written by the
	// controller, removed when the pod has a node.
	// +optional
	Waiting *Waiting `json:"waiting,omitempty"`

	// releasedAt is when the pod was let go from its required place. Written by the
	// controller, removed when the pod is Ready.
	// +optional
	ReleasedAt *metav1.Time `json:"releasedAt,omitempty"`
}

// Waiting tells of a pod that its required place does not take.
type Waiting struct {
	// since is when the controller first saw the pod wait. It stays when the pod is
	// created anew meanwhile.
	// +required
	Since metav1.Time `json:"since"`

	// reason is what keeps the place from taking the pod, in one word.
	// +required
	Reason string `json:"reason"`

	// reasonSince is since when it is that reason.
	// +optional
	ReasonSince *metav1.Time `json:"reasonSince,omitempty"`
}

// PersistentPodState brings the rebuilt pods of one workload back to their place.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pps
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.targetRef.name`
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
// +kubebuilder:printcolumn:name="Required",type=string,priority=1,JSONPath=`.spec.requiredPersistentTopology.keys`
// +kubebuilder:printcolumn:name="Preferred",type=string,priority=1,JSONPath=`.spec.preferredPersistentTopology[*].preference.keys`
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
	Status PersistentPodStateStatus `json:"status,omitzero"`
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
