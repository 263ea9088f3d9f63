package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// WorkloadSpreadSpec names a workload and the subsets of its pods.
// ---
// A rule that reads the text of each percentage would cost more than the API server allows, so
// the webhook judges percentages.
//
// +kubebuilder:validation:XValidation:rule="self.subsets.all(s, !has(s.maxReplicas) || type(s.maxReplicas) == string || s.maxReplicas >= 0 && s.maxReplicas <= 2147483647)",message="maxReplicas of each subset must be a number from 0 to 2147483647, or a percentage from 0% to 100%"
// +kubebuilder:validation:XValidation:rule="self.subsets.all(s, !has(s.maxReplicas) || type(s.maxReplicas) == string) || self.subsets.all(s, !has(s.maxReplicas) || type(s.maxReplicas) == int)",message="maxReplicas of all subsets must be numbers, or percentages in all of them"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduleStrategy) || !has(self.scheduleStrategy.adaptive) || size(self.subsets) < 2 || !has(self.subsets[size(self.subsets) - 1].maxReplicas)",message="the last subset must have no maxReplicas while scheduleStrategy.adaptive is set: it takes the pods that other subsets cannot"
type WorkloadSpreadSpec struct {
	// targetRef names the workload, in the namespace of this object, whose pods are spread.
	// Written by the user. Group, kind and name are immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind && self.name == oldSelf.name && (self.apiVersion.contains('/') ? self.apiVersion.split('/')[0] : '') == (oldSelf.apiVersion.contains('/') ? oldSelf.apiVersion.split('/')[0] : '')",message="group, kind and name of targetRef are immutable"
	TargetReference v1beta1.TargetReference `json:"targetRef"`

	// targetFilter limits the WorkloadSpread to a part of the workload's pods. Written by the
	// user; default: all pods.
	// +optional
	TargetFilter *v1beta1.TargetFilter `json:"targetFilter,omitempty"`

	// subsets are the parts of the workload in the order in which they are filled. Written by the
	// user.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Subsets []WorkloadSpreadSubset `json:"subsets"`

	// scheduleStrategy says what happens to pods that cannot be scheduled in their subset.
	// Written by the user; default: nothing.
	// +optional
	ScheduleStrategy v1beta1.WorkloadSpreadScheduleStrategy `json:"scheduleStrategy,omitzero"`
}

// WorkloadSpreadSubset is a part of a workload's pods, and the nodes that these pods get.
type WorkloadSpreadSubset struct {
	// name of the subset. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// requiredNodeSelectorTerm is the term that nodes of the subset's pods must match. It is added to
	// each required term of the pod. Written by the user; default: all nodes.
	// +optional
	RequiredNodeSelectorTerm *corev1.NodeSelectorTerm `json:"requiredNodeSelectorTerm,omitempty"`

	// preferredNodeSelectorTerms are terms that nodes of the subset's pods should match, with weights.
	// They are added to the preferred terms of the pod. Written by the user; default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PreferredNodeSelectorTerms []corev1.PreferredSchedulingTerm `json:"preferredNodeSelectorTerms,omitempty"`

	// tolerations are added to those of the subset's pods. Written by the user; default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// maxReplicas is how many pods the subset takes, as a number or as a percentage of the
	// workload's replicas. Written by the user; default: any number.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`

	// patch is a strategic merge patch for the subset's pods. Written by the user; default: none.
	// +optional
	// +nullable
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Patch runtime.RawExtension `json:"patch,omitzero"`
}

// WorkloadSpreadStatus counts the pods of a WorkloadSpread.
type WorkloadSpreadStatus struct {
	// observedGeneration is the generation of the spec that the status is based on. Written by
	// the controller.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// subsetStatuses count the pods of each subset. Written by the controller.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=65
	SubsetStatuses []WorkloadSpreadSubsetStatus `json:"subsetStatuses,omitempty"`

	// versionedSubsetStatuses count the pods of each subset for each version of the workload, by
	// the hash of its pod template. Written by the controller.
	// ---
	// The map is atomic for field management, as are podStates of PersistentPodStates.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=64
	VersionedSubsetStatuses map[string]VersionedSubsets `json:"versionedSubsetStatuses,omitempty"`

	// conditions are Placed: new pods of the target get a subset. Written by the controller.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VersionedSubsets are the subset statuses of one version of a workload.
//
// +listType=atomic
// +kubebuilder:validation:MaxItems=65
type VersionedSubsets []WorkloadSpreadSubsetStatus

// WorkloadSpreadSubsetStatus counts the pods of a subset.
type WorkloadSpreadSubsetStatus struct {
	// name of the subset. Written by the controller.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// replicas is how many active pods the subset has. Written by the controller.
	// +required
	Replicas int32 `json:"replicas"`

	// missingReplicas is how many further pods the subset takes; -1 is any number. Written by the
	// controller.
	// +required
	MissingReplicas int32 `json:"missingReplicas"`

	// conditions are Schedulable: pods of the subset can be scheduled. Written by the controller.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []SubsetCondition `json:"conditions,omitempty"`

	// creatingPods maps the names or UIDs of pods whose creation was allowed, and that are not yet
	// seen, to the time of that decision. Written by the controller.
	// +optional
	CreatingPods map[string]metav1.Time `json:"creatingPods,omitempty"`

	// deletingPods is a field of OpenKruise, with the names of pods whose deletion was allowed. Limpet
	// leaves it empty: a pod has its slot until it terminates.
	// +optional
	DeletingPods map[string]metav1.Time `json:"deletingPods,omitempty"`
}

// SubsetCondition is one aspect of a subset. Other than in v1beta1, reason, message and
// lastTransitionTime may be missing.
type SubsetCondition struct {
	// type of the condition. Written by the controller.
	// +required
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type"`

	// status is True, False or Unknown. Written by the controller.
	// +required
	Status metav1.ConditionStatus `json:"status"`

	// observedGeneration is the generation of the spec that the condition is based on. Written by
	// the controller.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastTransitionTime is when the status last changed. Written by the controller.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`

	// reason is the reason of the status as one word. Written by the controller.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// message explains the reason. Written by the controller.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
}

// WorkloadSpread spreads the pods of one workload over subsets of nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=workloadspreads,shortName=ws
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="WorkloadName",type=string,JSONPath=`.spec.targetRef.name`
// +kubebuilder:printcolumn:name="WorkloadKind",type=string,JSONPath=`.spec.targetRef.kind`
// +kubebuilder:printcolumn:name="Adaptive",type=string,JSONPath=`.spec.scheduleStrategy.type`
// +kubebuilder:printcolumn:name="Placed",type=string,JSONPath=`.status.conditions[?(@.type=="Placed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkloadSpread struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names a workload and the subsets of its pods. Written by the user.
	// +required
	Spec WorkloadSpreadSpec `json:"spec"`

	// status counts the pods. Written by the controller.
	// +optional
	Status WorkloadSpreadStatus `json:"status,omitzero"`
}

// WorkloadSpreadList is a list of WorkloadSpreads.
//
// +kubebuilder:object:root=true
type WorkloadSpreadList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects of the list.
	// +required
	Items []WorkloadSpread `json:"items"`
}
