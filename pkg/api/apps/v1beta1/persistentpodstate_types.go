package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RetentionPolicy is the event that ends the record of a pod.
type RetentionPolicy string

const (
	// RetainWhenScaled ends a pod's record when the pod's ordinal is scaled away. Unknown
	// values, which v1alpha1 allows, mean the same.
	RetainWhenScaled RetentionPolicy = "WhenScaled"
	// RetainWhenDeleted ends the records when the workload is deleted.
	RetainWhenDeleted RetentionPolicy = "WhenDeleted"
)

// PersistentPodStateSpec names a workload and the topology to which its rebuilt pods return.
//
// +kubebuilder:validation:XValidation:rule="has(self.requiredPersistentTopology) || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)",message="requiredPersistentTopology or preferredPersistentTopology must be set"
type PersistentPodStateSpec struct {
	// targetRef names the workload, in the namespace of this object, whose pods return. Written
	// by the user; immutable, because the records in the status belong to this workload.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef is immutable"
	TargetReference TargetReference `json:"targetRef"`

	// persistentPodAnnotations are the annotations that are recorded with a pod and added to
	// the rebuilt pod. Written by the user; default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PersistentPodAnnotations []PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`

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
	// ordinal is scaled away. WhenDeleted: the workload is deleted. Default: like WhenScaled,
	// but the record stays for as long as the pod's addresses may be reserved. Written by the
	// user.
	// +optional
	// +kubebuilder:validation:Enum=WhenScaled;WhenDeleted
	PersistentPodStateRetentionPolicy RetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`
}

// TargetReference names one workload in the object's namespace.
type TargetReference struct {
	// apiVersion is the group and version of the workload, such as apps/v1. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`

	// kind of the workload, such as StatefulSet. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the workload. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// PersistentPodAnnotation names one annotation to record.
type PersistentPodAnnotation struct {
	// key of the annotation. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
}

// NodeTopologyTerm is a set of node labels. The nodes with equal values of all labels are one
// place.
type NodeTopologyTerm struct {
	// keys of the node labels, all of which must match. Written by the user.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	Keys []string `json:"keys"`
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

// PersistentPodStateStatus holds the recorded places of the pods, and what became of rebuilt
// pods.
type PersistentPodStateStatus struct {
	// observedGeneration is the generation of the spec that the records are based on. Written
	// by the controller.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`

	// podStates maps the name of a pod to the place where the pod was last Ready. Written by
	// the controller.
	// ---
	// The map is atomic for field management: managed fields for each entry would be more than
	// half of the size of a record.
	// +mapType=atomic
	// +optional
	PodStates map[string]PodState `json:"podStates,omitempty"`

	// rebuilds counts rebuilt pods by outcome and describes the last rebuild. Written by the
	// controller.
	// +optional
	Rebuilds *Rebuilds `json:"rebuilds,omitempty"`

	// conditions are Recording: pods are recorded and rebuilt pods pinned; Waiting: pods are
	// Pending because their required place does not take them; TopologyUnknown: nodes lack a
	// label that the spec names, so that nothing holds pods there; KindsInvalid: the list of
	// workload kinds is malformed. Written by the controller.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Outcome is what became of a rebuilt pod.
//
// +kubebuilder:validation:Enum=Kept;Moved;Lost
type Outcome string

const (
	// Kept means the same node, or the same place, and the addresses that the pod asked to keep.
	Kept Outcome = "Kept"
	// Moved means another node.
	Moved Outcome = "Moved"
	// Lost means the same node, but other addresses than the pod asked to keep.
	Lost Outcome = "Lost"
)

// Rebuilds counts the rebuilds of a target's pods by outcome.
type Rebuilds struct {
	// kept is the number of pods that returned to their node and to the addresses that they
	// asked to keep. A pod that asked for no address is kept if its node has the labels of the
	// recorded place. Written by the controller.
	// +required
	Kept int64 `json:"kept"`

	// moved is the number of pods that became Ready on another node. Written by the controller.
	// +required
	Moved int64 `json:"moved"`

	// lost is the number of pods that returned to their node and got other addresses than those
	// that they asked to keep. Written by the controller.
	// +required
	Lost int64 `json:"lost"`

	// last is the most recent rebuild. Written by the controller.
	// +optional
	Last *Rebuild `json:"last,omitempty"`
}

// Rebuild is the outcome of one rebuild of a pod.
type Rebuild struct {
	// pod is the name of the pod. Written by the controller.
	// +required
	Pod string `json:"pod"`

	// outcome is Kept, Moved or Lost. Written by the controller.
	// +required
	Outcome Outcome `json:"outcome"`

	// cause is the reason, as one word, why the pod was not kept; unset when it was kept.
	// Written by the controller.
	// +optional
	Cause string `json:"cause,omitempty"`

	// message explains the cause in a sentence, or why a kept pod may have another address.
	// Written by the controller.
	// +optional
	Message string `json:"message,omitempty"`

	// from is the place before the rebuild. Written by the controller.
	// +required
	From Place `json:"from"`

	// to is the place after the rebuild. Written by the controller.
	// +required
	To Place `json:"to"`

	// time is when the controller saw the rebuilt pod Ready. Written by the controller.
	// +required
	Time metav1.Time `json:"time"`
}

// Place is the node and the addresses of a pod.
type Place struct {
	// nodeName is the name of the node. Written by the controller.
	// +required
	NodeName string `json:"nodeName"`

	// ips are the pod's addresses, separated by commas. Written by the controller.
	// +optional
	IPs string `json:"ips,omitempty"`
}

// PersistentPodState makes the rebuilt pods of one workload return to the place they had.
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

	// spec names the workload and the topology. Written by the user, or generated from
	// annotations of the workload.
	// +required
	Spec PersistentPodStateSpec `json:"spec"`

	// status holds the recorded places of the pods. Written by the controller.
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
