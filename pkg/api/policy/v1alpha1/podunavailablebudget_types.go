package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
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
}

// TargetReference names one workload in the object's namespace.
type TargetReference struct {
	// apiVersion is the group and version of the workload, such as apps/v1. Written by the user;
	// the webhook requires it.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion,omitempty"`

	// kind of the workload, such as Deployment. Written by the user; the webhook requires it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// name of the workload. Written by the user; the webhook requires it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// PodUnavailableBudget limits how many pods of an application are unavailable at a time.
//
// +kubebuilder:object:root=true
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
	Status v1beta1.PodUnavailableBudgetStatus `json:"status,omitzero"`
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
