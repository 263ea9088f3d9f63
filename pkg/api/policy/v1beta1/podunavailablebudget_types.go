package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Operation is a request that a budget may refuse.
//
// +kubebuilder:validation:Enum=DELETE;UPDATE;EVICT;RESIZE
type Operation string

const (
	// OperationDelete is the deletion of a pod.
	OperationDelete Operation = "DELETE"
	// OperationUpdate is a change of a pod's spec, in place.
	OperationUpdate Operation = "UPDATE"
	// OperationEvict is the eviction of a pod.
	OperationEvict Operation = "EVICT"
	// OperationResize is a change of a pod's resources, in place.
	OperationResize Operation = "RESIZE"
)

// PodUnavailableBudgetSpec names pods, and how many of them may be unavailable.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) != has(self.targetRef)",message="exactly one of selector and targetRef must be set"
// +kubebuilder:validation:XValidation:rule="has(self.maxUnavailable) != has(self.minAvailable)",message="exactly one of maxUnavailable and minAvailable must be set"
// +kubebuilder:validation:XValidation:rule="has(self.selector) == has(oldSelf.selector) && has(self.targetRef) == has(oldSelf.targetRef)",message="selector and targetRef are immutable"
type PodUnavailableBudgetSpec struct {
	// selector selects the pods by their labels, in the namespace of this object. Written by the
	// user; immutable. This field or targetRef must be set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="selector is immutable"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// targetRef names the workload whose pods are meant: any kind with a scale subresource.
	// Written by the user; immutable. This field or selector must be set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef is immutable"
	TargetReference *TargetReference `json:"targetRef,omitempty"`

	// maxUnavailable is how many pods may be unavailable, as a number or a percentage of the
	// size of the workload, which is rounded up. Written by the user; this field or minAvailable
	// must be set.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^0{0,2}(100|[0-9]{1,2})%$') : self >= 0 && self <= 2147483647",message="must be a number from 0 to 2147483647, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minAvailable is how many pods must stay available, as a number or a percentage of the size
	// of the workload, which is rounded up. Written by the user; this field or maxUnavailable
	// must be set.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^0{0,2}(100|[0-9]{1,2})%$') : self >= 0 && self <= 2147483647",message="must be a number from 0 to 2147483647, or a percentage from 0% to 100%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// protectOperations are the requests that the budget may refuse. Default: DELETE, UPDATE, EVICT
	// and RESIZE. Written by the user.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	ProtectOperations []Operation `json:"protectOperations,omitempty"`

	// protectTotalReplicas is the size of the workload, where it cannot be read or is not what
	// the budget shall count. Written by the user; default: the workload's replicas.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProtectTotalReplicas *int32 `json:"protectTotalReplicas,omitempty"`

	// ignoredPodSelector selects pods that the budget does not protect, by their labels. Written
	// by the user; default: none.
	// +optional
	IgnoredPodSelector *metav1.LabelSelector `json:"ignoredPodSelector,omitempty"`
}

// TargetReference names one workload in the object's namespace.
type TargetReference struct {
	// apiVersion is the group and version of the workload, such as apps/v1. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`

	// kind of the workload, such as Deployment. Written by the user.
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

// PodUnavailableBudgetStatus counts the pods of a budget.
type PodUnavailableBudgetStatus struct {
	// observedGeneration is the generation of the spec that the numbers are based on. Written by
	// the controller.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// disruptedPods maps the names of pods that may be deleted or evicted, and are not yet seen to
	// be gone, to the time of that decision. Written by the controller.
	// +optional
	DisruptedPods map[string]metav1.Time `json:"disruptedPods,omitempty"`

	// unavailablePods maps the names of pods that may be changed in place, and are not yet seen
	// to be changed, to the time of that decision. Written by the controller.
	// +optional
	UnavailablePods map[string]metav1.Time `json:"unavailablePods,omitempty"`

	// unavailableAllowed is how many further pods may become unavailable. Written by the
	// controller.
	// +required
	UnavailableAllowed int32 `json:"unavailableAllowed"`

	// currentAvailable is how many pods are available. Written by the controller.
	// +required
	CurrentAvailable int32 `json:"currentAvailable"`

	// desiredAvailable is how many pods must stay available. Written by the controller.
	// +required
	DesiredAvailable int32 `json:"desiredAvailable"`

	// totalReplicas is the size of the workload. Written by the controller.
	// +required
	TotalReplicas int32 `json:"totalReplicas"`

	// decisions are the last decisions about pods of the budget, the newest first. Written by
	// the controller.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Decisions []Decision `json:"decisions,omitempty"`

	// conditions are Enforced: requests are judged by this budget; DisruptionAllowed: a further
	// pod may become unavailable. Written by the controller.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Decision is one answer to the question whether a pod may go.
type Decision struct {
	// time of the decision. Written by the controller.
	// +required
	Time metav1.Time `json:"time"`

	// pod is the name of the pod. Written by the controller.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`

	// vector is the way in which the pod goes, such as evict or scale-in. Written by the
	// controller.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Vector string `json:"vector"`

	// verdict is Allowed, Refused or Accounted. Written by the controller.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Verdict string `json:"verdict"`

	// reason is the reason of the verdict as one word. Written by the controller.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason,omitempty"`

	// by is the user who asked. Written by the controller.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by,omitempty"`
}

// PodUnavailableBudget limits how many pods of an application are unavailable at a time.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=podunavailablebudgets,shortName=pub
// +kubebuilder:printcolumn:name="Allowed",type=integer,JSONPath=`.status.unavailableAllowed`
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.currentAvailable`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredAvailable`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.totalReplicas`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PodUnavailableBudget struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names pods, and how many of them may be unavailable. Written by the user.
	// +required
	Spec PodUnavailableBudgetSpec `json:"spec"`

	// status counts the pods. Written by the controller.
	// +optional
	Status PodUnavailableBudgetStatus `json:"status,omitzero"`
}

// PodUnavailableBudgetList is a list of PodUnavailableBudgets.
//
// +kubebuilder:object:root=true
type PodUnavailableBudgetList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects of the list.
	// +required
	Items []PodUnavailableBudget `json:"items"`
}
