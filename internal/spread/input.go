package spread

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Spread is what a WorkloadSpread says, for a workload of a known size. Of makes it.
type Spread struct {
	Name string
	// Subsets in the order in which pods fill them; there is at least one.
	Subsets []Subset
	// Adaptive is nil for a fixed spread.
	Adaptive *Adaptive
}

// Subset is one subset of a spread.
type Subset struct {
	Name string
	// Max is how many pods of one revision the subset takes; nil for any number.
	Max *int32
	// Percent tells that Max is a percentage of the size.
	Percent     bool
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
	// Earlier is the subset of an entry that the same pod has already, by its key; "" for none.
	Earlier string
	// Pod that is being created; its own tolerations count when a subset is looked for by its node.
	Pod *corev1.Pod
	// Node is where the pin sends the pod; nil for nowhere.
	Node *corev1.Node
	// Place is what the pin requires of the pod's node; nil for nothing. A place can exclude a
	// subset also when its node does not exist.
	Place []corev1.NodeSelectorRequirement
	// Room tells that Node has room for the pod.
	Room bool
	// Surplus tells that the pods which exist and the entries of the pod's owner are already as many
	// as the owner wants: see Wants.
	Surplus bool
	// Oldest is the entry that a surplus creation takes over; nil for none.
	Oldest *Entry
}

// Entry is a creation on its way.
type Entry struct {
	// Key is the UID of the creation request, or the name of a pod whose name is given.
	Key, Subset string
	// Owner is the UID of the pod's controller.
	Owner string
	Since time.Time
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
	// Home is the subset that would have the pod if pods could be scheduled there; "" for none.
	Home    string
	Reason  Reason
	Message string
}

// Reason is the reason of a decision as one word.
type Reason string

// Reasons of decisions.
const (
	ReasonFilled    Reason = "Filled"             // the first subset that takes the pod
	ReasonEarlier   Reason = "Earlier"            // the pod has an entry, or exists
	ReasonReturns   Reason = "Returns"            // the subset of the recorded node
	ReasonRequired  Reason = "PlaceRequired"      // the subset of the required place, although it has no free slot
	ReasonFull      Reason = "SubsetFull"         // unpinned: the subset of the recorded node has no free slot
	ReasonSkipped   Reason = "SubsetSkipped"      // unpinned: the subset of the recorded node takes no pods for now
	ReasonNoSubset  Reason = "NodeOutsideSubsets" // no subset contains the recorded node; unpinned, unless the place is required
	ReasonNoneFits  Reason = "NoSubsetFits"       // no subset takes the pod
	ReasonBadPatch  Reason = "PatchFailed"        // the patch of the subset does not apply to the pod
	ReasonNotWanted Reason = "NotWanted"          // the StatefulSet does not want the ordinal
)
