package budget

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/pkg/ledger"
)

// Vector is a way in which a pod goes away or becomes unavailable.
type Vector string

// Vectors, as users write them in the annotation limpet.dev/vectors.
const (
	Evict      Vector = "evict"
	Delete     Vector = "delete"      // by a user, a script or a workload that replaces pods
	ScaleIn    Vector = "scale-in"    // by a workload that has more pods than it wants
	Update     Vector = "update"      // in place
	Resize     Vector = "resize"      // pods/resize
	Leave      Vector = "leave"       // labels or owner change so that a budget covers the pod no longer
	Preemption Vector = "preemption"  // by the scheduler
	Taint      Vector = "taint"       // by the taint manager, for an unreachable or not ready node
	AdminTaint Vector = "admin-taint" // by the taint manager, for any other taint
	PodGC      Vector = "pod-gc"
	Teardown   Vector = "teardown" // the owner or the namespace is being deleted
	Limpet     Vector = "limpet"   // by the controller itself
	Lost       Vector = "lost"     // without a request: node pressure, power loss, a crash
)

// Policy is what a budget does about a vector.
type Policy string

// Policies.
const (
	Check Policy = "Check" // refuse when no unit is left
	Allow Policy = "Allow" // allow, and account for it
)

// Pod is what budgets need to know of a pod.
type Pod struct {
	UID, Name string
	// Available: Running, Ready for the stable time, not terminating, and not labelled unavailable.
	Available bool
	// Finished: terminating, or in a terminal phase.
	Finished bool
}

// Budget is one budget that covers the pod, with the facts about its pods.
type Budget struct {
	Name, UID string
	// MaxUnavailable or MinAvailable is set.
	MaxUnavailable, MinAvailable *intstr.IntOrString
	// Vectors are the policies that differ from the defaults.
	Vectors map[Vector]Policy
	// Operations that the budget protects; nil means the default.
	Operations []string
	// Expected is the size of the workload. Unknown says why it could not be read; "" when it was.
	Expected int32
	Unknown  string
	// Pods are the living pods that the budget covers, the pod of the request among them.
	Pods []Pod
	// KeepPlace: a pod may only go when its place is kept for it.
	KeepPlace bool
	// Leaves tells that the request takes the pod out of this budget.
	Leaves bool
}

// PDB is a native PodDisruptionBudget that selects the pod.
type PDB struct {
	Name                                              string
	Allowed, CurrentHealthy, DesiredHealthy, Expected int32
	// Behind: the status is older than the spec.
	Behind bool
	// AlwaysAllowUnhealthy is the unhealthyPodEvictionPolicy AlwaysAllow.
	AlwaysAllowUnhealthy         bool
	Selector                     labels.Selector
	MaxUnavailable, MinAvailable *intstr.IntOrString
}

// Place is what is known of the place to which a rebuilt pod returns.
type Place struct {
	// Asked: the pod asks to keep its address.
	Asked bool
	// Address says why the address would not be held; "" when it will be.
	Address string
	// Node says why no node could take the rebuilt pod; "" when one can.
	Node string
}

// Input are the facts about one request.
type Input struct {
	Now    time.Time
	Vector Vector
	Pod    Pod
	// By is the user who asks.
	By      string
	Budgets []Budget
	PDBs    []PDB // of evictions only
	Place   Place
	// Book holds the units that are in use.
	Book ledger.Book
}

// Verdict is the answer.
type Verdict string

// Verdicts.
const (
	// Allowed: the pod may go, and takes a unit of each budget when Decision.Take says so.
	Allowed Verdict = "Allowed"
	// Refused: the pod must stay for now.
	Refused Verdict = "Refused"
	// Accounted: the pod goes whatever the budgets say, and takes a unit.
	Accounted Verdict = "Accounted"
)

// Reason is why a verdict was given, as one word.
type Reason string

// Reasons.
const (
	ReasonUnits        Reason = "UnitsLeft"           // each budget has a unit left
	ReasonNotAvailable Reason = "PodNotAvailable"     // the pod is not available as it is
	ReasonTaken        Reason = "AlreadyTaken"        // an earlier call took the unit
	ReasonUnprotected  Reason = "Unprotected"         // no budget protects from this vector
	ReasonPolicy       Reason = "AllowedByPolicy"     // the policy of the vector is Allow
	ReasonExhausted    Reason = "BudgetExhausted"     // a budget has no unit left
	ReasonUnknownSize  Reason = "SizeUnknown"         // the size of a workload cannot be read
	ReasonPDB          Reason = "PodDisruptionBudget" // a native budget will refuse
	ReasonManyPDBs     Reason = "ManyPodDisruptionBudgets"
	ReasonAddress      Reason = "IPNotRetainable"
	ReasonNode         Reason = "NodeNotRetainable"
	ReasonStale        Reason = "MeantForPredecessor" // the pod that was asked for is gone
	ReasonFull         Reason = "BookFull"
)

// Decision is the answer to one request.
type Decision struct {
	Verdict Verdict
	Reason  Reason
	// Take tells to enter the pod into the book.
	Take bool
	// Message says what a person needs to know: which budget, needs N and has M, who has the
	// units since when, and what would free one. "" for an allowed request.
	Message string
	// Blocking are the names of all budgets that refuse.
	Blocking []string
}

// Numbers are what a budget shows in its status.
type Numbers struct {
	Total, Desired, Current, Allowed int32
}
