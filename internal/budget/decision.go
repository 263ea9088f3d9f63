package budget

// Verdict is the answer.
type Verdict string

// Verdicts.
const (
	// Allowed: the pod may go.
	Allowed Verdict = "Allowed"
	// Refused: the pod must stay for now.
	Refused Verdict = "Refused"
	// Accounted: the pod goes whatever the budgets say.
	Accounted Verdict = "Accounted"
)

// Verdicts are all verdicts.
var Verdicts = []Verdict{Allowed, Refused, Accounted}

// Reason is why a verdict was given, as one word.
type Reason string

// Reasons.
const (
	ReasonUnits        Reason = "UnitsLeft"                // each budget has a unit left
	ReasonNotAvailable Reason = "PodNotAvailable"          // the pod is not available as it is
	ReasonTaken        Reason = "AlreadyTaken"             // an earlier call took the unit
	ReasonUnprotected  Reason = "Unprotected"              // no budget protects from this vector
	ReasonPolicy       Reason = "AllowedByPolicy"          // the policy of the vector is Allow
	ReasonExhausted    Reason = "BudgetExhausted"          // a budget has no unit left
	ReasonUnknownSize  Reason = "SizeUnknown"              // the size of a workload cannot be read
	ReasonPeers        Reason = "PeersNotReady"            // the peers of a budget have not agreed, do not answer, or lack pods
	ReasonPDB          Reason = "PodDisruptionBudget"      // a native budget will refuse
	ReasonManyPDBs     Reason = "ManyPodDisruptionBudgets" // several native budgets select the pod: the API server would answer 500
	ReasonAddress      Reason = "IPNotRetainable"          // keep-place: the address of the pod would not be held
	ReasonNode         Reason = "NodeNotRetainable"        // keep-place: the node of the pod would not take its successor
	ReasonStale        Reason = "MeantForPredecessor"      // the pod that was asked for is gone: answered with 404
	ReasonFull         Reason = "BookFull"                 // the book of the budgets has no room for a further entry
)

// Reasons are all reasons. Of several budgets that refuse, the reason that comes first here counts.
var Reasons = []Reason{
	ReasonUnits, ReasonNotAvailable, ReasonTaken, ReasonUnprotected, ReasonPolicy, ReasonStale, ReasonPDB, ReasonManyPDBs,
	ReasonPeers, ReasonUnknownSize, ReasonExhausted, ReasonAddress, ReasonNode, ReasonFull,
}

// Decision is the answer to one request.
type Decision struct {
	Verdict Verdict
	Reason  Reason
	// Take tells to enter Input.Entry into the book, in place of an entry of the pod.
	Take bool
	// Message says what a person needs to know: which budget, needs N and has M, who has the
	// units since when, and what would free one. It has at most MostMessage bytes; "" for an
	// allowed request.
	Message string
	// Offer is the PodUnavailableBudget that would replace several PodDisruptionBudgets, as
	// YAML; "" for any other answer.
	Offer string
	// Blocked tells of a refusal by a budget over sites, or beside one, that no unit of a peer would lift.
	Blocked bool
	// Blocking are the names of all budgets that refuse, sorted.
	Blocking []string
}

// Numbers are what a budget shows in its status.
type Numbers struct {
	// Total is the size of the workload, and the number of covered pods when Unknown says why
	// the size cannot be read.
	Total int32
	// Desired is how many pods must stay available.
	Desired int32
	// Current is how many pods are available.
	Current int32
	// Allowed is how many further pods may become unavailable. It is never above
	// maxUnavailable, also while a rollout has surplus pods.
	Allowed int32
	Unknown string
}
