package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Order is what puts the places of a ring in order.
//
// +kubebuilder:validation:Enum=ordinal;label
type Order string

const (
	// OrderOrdinal orders the pods of StatefulSets by the names of their sets and by their ordinals.
	OrderOrdinal Order = "ordinal"
	// OrderLabel orders pods by the value of a label. Pods of one value share a place.
	OrderLabel Order = "label"
)

// DistributedPodDisruptionBudgetSpec names pods, divides them into groups, and says how many pods of
// each group may be unavailable.
//
// +kubebuilder:validation:XValidation:rule="has(self.maxUnavailable) != has(self.minAvailable)",message="exactly one of maxUnavailable and minAvailable must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.federation) || !has(self.groups)",message="groups must not be set beside federation"
// +kubebuilder:validation:XValidation:rule="!has(self.federation) || (has(self.maxUnavailable) ? type(self.maxUnavailable) == int : !has(self.minAvailable) || type(self.minAvailable) == int)",message="beside federation, maxUnavailable or minAvailable must be a number: a percentage has no size that all clusters know"
// +kubebuilder:validation:XValidation:rule="!has(self.partitionPolicy) || has(self.federation)",message="partitionPolicy needs federation"
// +kubebuilder:validation:XValidation:rule="!has(self.child) || has(self.federation)",message="child needs federation"
type DistributedPodDisruptionBudgetSpec struct {
	// selector selects the pods by their labels, in the namespace of this object. Written by the
	// user.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="an empty selector would select every pod; name a label in matchLabels or matchExpressions"
	Selector *metav1.LabelSelector `json:"selector"`

	// maxUnavailable is how many pods of each group may be unavailable, as a number or a percentage
	// of the size of the group, which is rounded up. Written by the user; this field or minAvailable
	// must be set.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^0{0,2}(100|[0-9]{1,2})%$') : self >= 0 && self <= 2147483647",message="must be a number from 0 to 2147483647, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minAvailable is how many pods of each group must stay available, as a number or a percentage
	// of the size of the group, which is rounded up. Written by the user; this field or
	// maxUnavailable must be set.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^0{0,2}(100|[0-9]{1,2})%$') : self >= 0 && self <= 2147483647",message="must be a number from 0 to 2147483647, or a percentage from 0% to 100%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// groups divide the pods. Written by the user; default: all pods are one group.
	// +optional
	Groups *BudgetGroups `json:"groups,omitempty"`

	// federation names the budgets of other namespaces and clusters that count together with this one.
	// Each must name all others, and have the same number, which is that of all pods together. The
	// entry of the budget itself may stand here, too. Written by the user.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=17
	Federation []BudgetPeer `json:"federation,omitempty"`

	// partitionPolicy says whether a pod may go while a peer does not answer: Strict for no, Reserved for
	// as many pods as this budget has units at hand. Written by the user; default: Strict.
	// +optional
	PartitionPolicy PartitionPolicy `json:"partitionPolicy,omitempty"`

	// child asks for a PodDisruptionBudget of the same name that says what the share does: for evictions while no
	// controller answers, and for programs that read its status. Written by the user; default: none.
	// +optional
	Child ChildKind `json:"child,omitempty"`
}

// ChildKind is the kind of a child.
//
// +kubebuilder:validation:Enum=PodDisruptionBudget
type ChildKind string

// ChildPlain is a PodDisruptionBudget.
const ChildPlain ChildKind = "PodDisruptionBudget"

// PartitionPolicy says what holds while a peer does not answer.
//
// +kubebuilder:validation:Enum=Strict;Reserved
type PartitionPolicy string

const (
	// PartitionStrict lets no pod go while a peer does not answer, or lacks pods beyond its share.
	PartitionStrict PartitionPolicy = "Strict"
	// PartitionReserved lets pods go for which units are at hand.
	PartitionReserved PartitionPolicy = "Reserved"
)

// PeerKind is the kind of a budget that counts together with another one.
//
// +kubebuilder:validation:Enum=DistributedPodDisruptionBudget;PodDisruptionBudget
type PeerKind string

// PeerPlain is a PodDisruptionBudget of Kubernetes. It shares no units: its own number is its share.
const PeerPlain PeerKind = "PodDisruptionBudget"

// BudgetPeer names a budget of another namespace or cluster.
type BudgetPeer struct {
	// kind of the budget. A PodDisruptionBudget has its own number as a fixed share; its annotation
	// limpet.dev/peers must name this budget. Written by the user; default: DistributedPodDisruptionBudget.
	// +optional
	Kind PeerKind `json:"kind,omitempty"`

	// cluster is the name of the cluster, which is a context of the controller's kubeconfig for peers.
	// Written by the user; default: the cluster of this object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._@-]*[A-Za-z0-9])?$`
	Cluster string `json:"cluster,omitempty"`

	// namespace of the budget. Written by the user; default: the namespace of this object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the budget. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// BudgetGroups divide the pods of a budget into groups.
//
// +kubebuilder:validation:XValidation:rule="has(self.byLabel) != has(self.sliding)",message="exactly one of byLabel and sliding must be set"
type BudgetGroups struct {
	// byLabel is the key of a label: the pods of each value are a group. Written by the user.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`
	ByLabel string `json:"byLabel,omitempty"`

	// sliding puts the pods into a row or a ring. Each window of it is a group. Written by the user.
	// +optional
	Sliding *SlidingGroups `json:"sliding,omitempty"`
}

// SlidingGroups are windows over places in order. A pod is in each window that has its place.
//
// +kubebuilder:validation:XValidation:rule="has(self.label) == (self.orderBy == 'label')",message="label must be set for orderBy label, and for no other"
// +kubebuilder:validation:XValidation:rule="!has(self.step) || self.step <= self.size",message="step must not be greater than size: some pods would be in no group"
// +kubebuilder:validation:XValidation:rule="self.size <= 32 * (has(self.step) ? self.step : 1)",message="a pod would be in more than 32 groups: size must be at most 32 times step"
type SlidingGroups struct {
	// orderBy says what a place is: ordinal for each pod of a StatefulSet, or label for all pods of
	// one value of a label. Numbers in names and values are ordered by their value. Written by the
	// user.
	// +required
	OrderBy Order `json:"orderBy"`

	// label is the key of the label for orderBy label. Written by the user.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`
	Label string `json:"label,omitempty"`

	// size is how many places in a row a group has. Written by the user.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Size int32 `json:"size"`

	// step is how many places after a group the next one begins. Written by the user; default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Step int32 `json:"step,omitempty"`

	// wrap makes a ring: the first place comes after the last one. Written by the user; default:
	// false.
	// +optional
	Wrap bool `json:"wrap,omitempty"`
}

// DistributedPodDisruptionBudgetStatus counts the pods of a budget.
type DistributedPodDisruptionBudgetStatus struct {
	// observedGeneration is the generation of the spec that the numbers are based on. Written by the
	// controller.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// disruptionsAllowed is how many further pods may become unavailable together. Written by the
	// controller.
	// +required
	DisruptionsAllowed int32 `json:"disruptionsAllowed"`

	// currentHealthy is how many pods are available. Written by the controller.
	// +required
	CurrentHealthy int32 `json:"currentHealthy"`

	// expectedPods is how many pods the workloads want. Written by the controller.
	// +required
	ExpectedPods int32 `json:"expectedPods"`

	// totalGroups is how many groups there are. Written by the controller.
	// +required
	TotalGroups int32 `json:"totalGroups"`

	// blockedGroups is how many groups let no further pod go. Written by the controller.
	// +required
	BlockedGroups int32 `json:"blockedGroups"`

	// groups are the first groups that let no pod go or lack one. Written by the controller.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Groups []BudgetGroupStatus `json:"groups,omitempty"`

	// site is how peers must name this budget: its cluster, namespace and name. Written by the
	// controller for a budget with federation.
	// +optional
	// +kubebuilder:validation:MaxLength=600
	Site string `json:"site,omitempty"`

	// shares are the units that this budget has of those that it divides with its peers, which read
	// them here. Written by the controller.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=17
	Shares []BudgetShare `json:"shares,omitempty"`

	// federatedStatuses are what the peers show. Written by the controller.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=17
	FederatedStatuses []FederatedStatus `json:"federatedStatuses,omitempty"`

	// conditions are Enforced: requests are judged by this budget; DisruptionAllowed: a further pod
	// may become unavailable; Child: there is the PodDisruptionBudget that child asks for. Written by the controller.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BudgetGroupStatus counts the pods of one group.
type BudgetGroupStatus struct {
	// name of the group, such as rack=a, or db-8..db-0 for a window. Written by the controller.
	// +required
	// +kubebuilder:validation:MaxLength=600
	Name string `json:"name"`

	// disruptionsAllowed is how many further pods of the group may become unavailable. Written by the
	// controller.
	// +required
	DisruptionsAllowed int32 `json:"disruptionsAllowed"`

	// currentHealthy is how many pods of the group are available. Written by the controller.
	// +required
	CurrentHealthy int32 `json:"currentHealthy"`

	// desiredHealthy is how many pods of the group must stay available. Written by the controller.
	// +required
	DesiredHealthy int32 `json:"desiredHealthy"`

	// expectedPods is the size of the group. Written by the controller.
	// +required
	ExpectedPods int32 `json:"expectedPods"`
}

// DistributedPodDisruptionBudget limits how many pods of each of its groups are unavailable at a time.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=distributedpoddisruptionbudgets,shortName=dpdb
// +kubebuilder:printcolumn:name="Allowed",type=integer,JSONPath=`.status.disruptionsAllowed`
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.currentHealthy`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.expectedPods`
// +kubebuilder:printcolumn:name="Groups",type=integer,JSONPath=`.status.totalGroups`
// +kubebuilder:printcolumn:name="Blocked",type=integer,JSONPath=`.status.blockedGroups`
// +kubebuilder:printcolumn:name="Share",type=integer,JSONPath=`.status.shares[0].number`,priority=1
// +kubebuilder:printcolumn:name="Waits",type=date,JSONPath=`.status.shares[0].waitingSince`,priority=1
// +kubebuilder:printcolumn:name="Problem",type=string,JSONPath=`.status.federatedStatuses[*].problem`,priority=1
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DistributedPodDisruptionBudget struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names pods, divides them into groups, and says how many pods of each may be unavailable.
	// Written by the user.
	// +required
	Spec DistributedPodDisruptionBudgetSpec `json:"spec"`

	// status counts the pods. Written by the controller.
	// +optional
	Status DistributedPodDisruptionBudgetStatus `json:"status,omitzero"`
}

// DistributedPodDisruptionBudgetList is a list of DistributedPodDisruptionBudgets.
//
// +kubebuilder:object:root=true
type DistributedPodDisruptionBudgetList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects of the list.
	// +required
	Items []DistributedPodDisruptionBudget `json:"items"`
}
