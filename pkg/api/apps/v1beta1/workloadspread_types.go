package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// SpreadStrategy is how a WorkloadSpread treats pods that cannot be scheduled.
//
// +kubebuilder:validation:Enum="";Fixed;Adaptive
type SpreadStrategy string

const (
	// SpreadFixed leaves a pod that cannot be scheduled in its subset. The empty value means the
	// same.
	SpreadFixed SpreadStrategy = "Fixed"
	// SpreadAdaptive creates a pod that cannot be scheduled again, in another subset.
	SpreadAdaptive SpreadStrategy = "Adaptive"
)

// ReturnPolicy says what happens to a pod that got another subset than its own.
//
// +kubebuilder:validation:Enum=Never;WhenRecovered
type ReturnPolicy string

const (
	// ReturnNever leaves the pod where it is. The empty value means the same.
	ReturnNever ReturnPolicy = "Never"
	// ReturnWhenRecovered creates the pod again once its subset takes pods again.
	ReturnWhenRecovered ReturnPolicy = "WhenRecovered"
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
	TargetReference TargetReference `json:"targetRef"`

	// targetFilter limits the WorkloadSpread to a part of the workload's pods. Written by the
	// user; default: all pods.
	// +optional
	TargetFilter *TargetFilter `json:"targetFilter,omitempty"`

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
	ScheduleStrategy WorkloadSpreadScheduleStrategy `json:"scheduleStrategy,omitzero"`
}

// TargetFilter selects a part of a workload's pods.
type TargetFilter struct {
	// selector selects the pods by their labels. Written by the user; default: all pods.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// replicasPathList are paths of numbers in the workload, whose sum is how many pods the
	// selector selects. The parts of a path are separated by dots, as in
	// spec.tfReplicaSpecs.Worker.replicas; a number is an index of a list. Written by the user;
	// default: the workload's replicas.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ReplicasPathList []string `json:"replicasPathList,omitempty"`
}

// WorkloadSpreadSubset is a part of a workload's pods, and the nodes that these pods get.
type WorkloadSpreadSubset struct {
	// name of the subset. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// requiredNodeSelector is the term that nodes of the subset's pods must match. It is added to
	// each required term of the pod. Written by the user; default: all nodes.
	// +optional
	RequiredNodeSelector *corev1.NodeSelectorTerm `json:"requiredNodeSelector,omitempty"`

	// preferredNodeSelector are terms that nodes of the subset's pods should match, with weights.
	// They are added to the preferred terms of the pod. Written by the user; default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PreferredNodeSelector []corev1.PreferredSchedulingTerm `json:"preferredNodeSelector,omitempty"`

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

// WorkloadSpreadScheduleStrategy says what happens to pods that cannot be scheduled.
//
// +kubebuilder:validation:XValidation:rule="!has(self.adaptive) || (has(self.type) && self.type == 'Adaptive')",message="type must be Adaptive while adaptive is set"
type WorkloadSpreadScheduleStrategy struct {
	// type is Fixed or Adaptive. Fixed: pods stay in their subset, also if they cannot be
	// scheduled there. Adaptive: such pods are created again in another subset. Written by the
	// user; default: Fixed.
	// +optional
	Type SpreadStrategy `json:"type,omitempty"`

	// adaptive has the settings of the type Adaptive. Written by the user.
	// +optional
	Adaptive *AdaptiveSpread `json:"adaptive,omitempty"`
}

// AdaptiveSpread has the settings of the strategy Adaptive.
type AdaptiveSpread struct {
	// disableSimulationSchedule has no effect, as in OpenKruise. Written by the user.
	// +optional
	DisableSimulationSchedule bool `json:"disableSimulationSchedule,omitempty"`

	// rescheduleCriticalSeconds is how long a pod may be unschedulable before it is created again
	// in another subset. Written by the user; default, and 0: pods are not created again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`

	// recoverySeconds is how long a subset whose pods could not be scheduled gets no new pods.
	// Written by the user; default: 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RecoverySeconds *int32 `json:"recoverySeconds,omitempty"`

	// returnPolicy says what happens to pods that got another subset. Never: they stay there.
	// WhenRecovered: they are created again, as budgets allow, once their subset takes pods again.
	// Written by the user; default: Never.
	// +optional
	ReturnPolicy ReturnPolicy `json:"returnPolicy,omitempty"`
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
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// creatingPods maps the names or UIDs of pods whose creation was allowed, and that are not yet
	// seen, to the time of that decision. Written by the controller.
	// +optional
	CreatingPods map[string]metav1.Time `json:"creatingPods,omitempty"`

	// deletingPods is a field of OpenKruise, with the names of pods whose deletion was allowed. Limpet
	// leaves it empty: a pod has its slot until it terminates.
	// +optional
	DeletingPods map[string]metav1.Time `json:"deletingPods,omitempty"`
}

// WorkloadSpread spreads the pods of one workload over subsets of nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=workloadspreads,shortName=ws
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.targetRef.name`
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
