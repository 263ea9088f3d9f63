package spread

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Spread is what a WorkloadSpread says, for a workload of a known size. Of makes it.
type Spread struct {
	Name, UID string
	// Subsets in the order in which pods fill them; there is at least one.
	Subsets []Subset
	// Adaptive is nil for a fixed spread.
	Adaptive *Adaptive
}

// Subset is one subset of a spread.
type Subset struct {
	Name string
	// Max is how many pods of one revision the subset takes; nil for any number.
	Max         *int32
	Required    *corev1.NodeSelectorTerm
	Preferred   []corev1.PreferredSchedulingTerm
	Tolerations []corev1.Toleration
	// Patch is a strategic merge patch of the pod, in JSON; nil for none.
	Patch []byte
	// Unschedulable tells that the subset is skipped for now. It is never set for the last subset.
	Unschedulable bool
}

// Adaptive are the rules of a spread that skips subsets in which no pod can be scheduled.
type Adaptive struct {
	// Critical is how long a pod may be unschedulable; 0 means that subsets are never skipped.
	Critical time.Duration
	// Recovery is how long a subset is skipped.
	Recovery time.Duration
	// Return: pods that fell back are brought home when their subset is well again.
	Return bool
}

// Slots are the slots of one subset that are in use, for one revision.
type Slots struct {
	// Pods that exist and are active.
	Pods int32
	// Booked are creations on their way, whose pods are not seen yet.
	Booked int32
}

// Input are the facts about the creation of one pod.
type Input struct {
	Spread Spread
	// Slots by the name of the subset, for the revision of the pod.
	Slots map[string]Slots
	// Earlier is the subset of an entry that the same pod has already, by its name; "" for none.
	Earlier string
	// Node is where the pin sends the pod; nil for nowhere.
	Node *corev1.Node
	// Surplus tells that the pods which exist and the entries of the pod's owner are already as many
	// as the owner wants: see Wants.
	Surplus bool
	// Oldest is the entry that a surplus creation takes over; nil for none.
	Oldest *Entry
}

// Entry is a creation on its way.
type Entry struct {
	Key, Subset string
	Since       time.Time
}

// Decision is the subset of a pod.
type Decision struct {
	// Subset is its name; "" when no subset fits.
	Subset string
	// Book tells that the subset has a limit, so that the pod needs an entry.
	Book bool
	// Replaces is the key of the entry that the new one takes the place of; "" for none.
	Replaces string
	// Unpinned tells that the recorded node does not apply, because the spread does not permit it.
	Unpinned bool
	Reason   Reason
	Message  string
}

// Reason is the reason of a decision as one word.
type Reason string
