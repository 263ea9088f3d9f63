package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DisruptionBook holds the pods that budgets have let go and that are not yet seen to be gone.
// The budgets of a namespace share a book, so that one write decides for all of them. The book of a
// WorkloadSpread holds the pods that are being created and not yet seen.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=disruptionbooks
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DisruptionBook struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name of the book is the UID of the WorkloadSpread,
	// or 00000000-0000-0000-0000-000000000000 for that of the budgets.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// seen is the newest resource version of a pod that was known when entries were last
	// removed. A replica that knows only older pods must not decide. Written by the controller.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Seen string `json:"seen,omitempty"`

	// entries are pods that may go, and are not yet seen to be gone. Each line is one pod: uid,
	// pod, use, vector, by, since, expires, version, generation, restarts, subset and owner, separated
	// by spaces. A hyphen is no value. Written by the controller.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=1048576
	Entries DisruptionEntries `json:"entries,omitempty"`

	// waiting are requests that were refused and may come again. Each line is one request: uid,
	// pod, by, since, last, byWorkload and blocked. Written by the controller.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=262144
	Waiting WaitingRequests `json:"waiting,omitempty"`

	// decisions are the last decisions, the newest first. Each line is one decision: time, pod,
	// budgets, vector, verdict, reason and by. Written by the controller.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=131072
	Decisions BookedDecisions `json:"decisions,omitempty"`

	// shares are those of the budgets with federation. Written by the controller.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Shares []BudgetShare `json:"shares,omitempty"`
}

// DisruptionEntries are the entries of a book. They are stored as one text: an API server checks
// each field of each item of a list, and takes ten times as long for a write of 2000 entries.
type DisruptionEntries []DisruptionEntry

// WaitingRequests are the refused requests of a book, stored as one text.
type WaitingRequests []WaitingRequest

// BookedDecisions are the last decisions of a book, stored as one text.
type BookedDecisions []BookedDecision

// DisruptionEntry is a pod that may go.
type DisruptionEntry struct {
	// uid of the pod. A pod that is being created has none: the UID of the request, or "/" and
	// the name of the pod, stands for it. Written by the controller.
	// +required
	UID types.UID `json:"uid"`

	// pod is its name; empty for a pod that gets its name later. Written by the controller.
	// +required
	Pod string `json:"pod"`

	// use is Gone for a pod that is deleted or evicted, Changed for a pod that is changed in place,
	// Restarting for one whose kubelet has seen the change, Leaving for a changed pod that is deleted or
	// evicted, Placed for a pod that is being created. Written by the controller.
	// +required
	// +kubebuilder:validation:Enum=Gone;Changed;Restarting;Leaving;Placed
	Use string `json:"use"`

	// vector is the way in which the pod goes. Written by the controller.
	// +required
	Vector string `json:"vector"`

	// by is the user who asked. Written by the controller.
	// +optional
	By string `json:"by,omitempty"`

	// since is the time of the decision. Written by the controller.
	// +required
	Since metav1.MicroTime `json:"since"`

	// expires is when the entry ends although the pod did not go. Written by the controller.
	// +required
	Expires metav1.MicroTime `json:"expires"`

	// version is the resource version of the pod at the decision. Written by the controller.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`

	// generation is the generation of the pod at the decision. Written by the controller.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// restarts is how often the containers were restarted at the decision. Written by the controller.
	// +optional
	Restarts int64 `json:"restarts,omitempty"`

	// subset is the subset in which a Placed pod has a slot. Written by the controller.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Subset string `json:"subset,omitempty"`

	// owner is the UID of the controller of a Placed pod. Written by the controller.
	// +optional
	Owner types.UID `json:"owner,omitempty"`
}

// WaitingRequest is a request that was refused.
type WaitingRequest struct {
	// uid of the pod that was asked for. Written by the controller.
	// +required
	UID types.UID `json:"uid"`

	// pod is its name. Written by the controller.
	// +required
	Pod string `json:"pod"`

	// by is the user who asked. Written by the controller.
	// +required
	By string `json:"by"`

	// since is the time of the first request. Written by the controller.
	// +required
	Since metav1.MicroTime `json:"since"`

	// last is the time of the last request. Written by the controller.
	// +required
	Last metav1.MicroTime `json:"last"`

	// byWorkload tells that the controller of the pod's workload asks. Written by the controller.
	// +optional
	ByWorkload bool `json:"byWorkload,omitempty"`

	// blocked tells that no unit of a peer would let the pod go. Written by the controller.
	// +optional
	Blocked bool `json:"blocked,omitempty"`
}

// BookedDecision is one answer, with the budgets that it is about.
type BookedDecision struct {
	// time of the decision. Written by the controller.
	// +required
	Time metav1.MicroTime `json:"time"`

	// pod is the name of the pod. Written by the controller.
	// +required
	Pod string `json:"pod"`

	// budgets are the names of the budgets that cover the pod. Written by the controller.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Budgets []string `json:"budgets,omitempty"`

	// vector is the way in which the pod goes. Written by the controller.
	// +required
	Vector string `json:"vector"`

	// verdict is Allowed, Refused or Accounted. Written by the controller.
	// +required
	Verdict string `json:"verdict"`

	// reason is the reason of the verdict as one word. Written by the controller.
	// +optional
	Reason string `json:"reason,omitempty"`

	// by is the user who asked. Written by the controller.
	// +optional
	By string `json:"by,omitempty"`
}

// DisruptionBookList is a list of DisruptionBooks.
//
// +kubebuilder:object:root=true
type DisruptionBookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the objects of the list.
	// +required
	Items []DisruptionBook `json:"items"`
}
