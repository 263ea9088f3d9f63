package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/test/disruptions"
)

// Variant is the code under test, or a broken form of it.
type Variant string

// Variants. All but Sound must be found.
const (
	Sound      Variant = ""
	Unguarded  Variant = "no budget is asked"
	NoEntry    Variant = "no entry in the book"
	ShortEntry Variant = "entries expire after 5 s"
	NoFence    Variant = "a cache that is behind may decide"
	OwnBooks   Variant = "a book for each budget"
	NoCompare  Variant = "books are written without compare"
	NoSize     Variant = "the living pods are the size of the workload"
	NoAbsent   Variant = "workloads without a pod are not counted"
	NoForeign  Variant = "workloads without a pod are not counted, if their kind is none of Kubernetes"
	NoPDB      Variant = "PodDisruptionBudgets are not asked first"
	NoPlace    Variant = "the place of a pod is not looked at"
	NoUnready  Variant = "pods that are not Ready are not protected"
	AnyEnder   Variant = "any user may end a node"
	DenyAll    Variant = "everything is refused"
	ClockEnds  Variant = "the clock ends changes in place"
	NoStatus   Variant = "a status that turns a pod not Ready is not judged"
	NoBare     Variant = "pods of no workload are not counted"
	NoParting  Variant = "the loss of an owner beside the controller is not judged"
	EarlyLeave Variant = "a pod that was given away counts as before"
	Forgetful  Variant = "a deleted budget takes the entries of its book along"
	// LateEviction is what the API server does with an eviction that names no UID: it evicts the
	// pod that has the name at the time of the write.
	LateEviction Variant = "an eviction hits the successor"
)

// cluster is one schedule as it runs.
type cluster struct {
	*simulated
	*store
	variant  Variant
	replicas []*replica
	leader   int
	rests    time.Time // when nothing new begins
	events   []disruptions.Event

	decided    map[budget.Reason]int
	ways       map[budget.Vector]int
	unready    int // refusals of pods that are not Ready
	conflicts  int
	unfinished int // drains that did not end
}

// Outcome is what a schedule came to.
type Outcome struct {
	Events []disruptions.Event
	disruptions.Result
	// Decided counts the decisions by reason, Ways those by vector.
	Decided               map[budget.Reason]int
	Ways                  map[budget.Vector]int
	Conflicts, Unfinished int
	Unready               int // refusals of pods that are not Ready, while too few are available
}

// MostLag is how far caches are behind at the most.
const MostLag = 3 * time.Second

// Bounds are the bounds of the check for a schedule. A request that fails is judged again until the
// commit bound, and its entry lasts from the last time on. Of two changes that a kubelet makes at once,
// the second entry lasts until the container must have stopped.
var Bounds = disruptions.Options{Lag: MostLag, Replacement: commitBound + ledger.Bound + grace + 6*time.Second}

// Run runs the schedule of one seed and checks it.
func Run(seed uint64, variant Variant) Outcome {
	c := &cluster{
		simulated: &simulated{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), random: rand.New(rand.NewPCG(seed, 0))},
		store:     newStore(), variant: variant, decided: map[budget.Reason]int{}, ways: map[budget.Vector]int{},
	}
	c.replicas = []*replica{c.newReplica(), c.newReplica()}
	end := c.script()
	c.run(end)
	return Outcome{
		Events: c.events, Result: disruptions.Check(c.events, Bounds), Decided: c.decided, Ways: c.ways,
		Conflicts: c.conflicts, Unfinished: c.unfinished, Unready: c.unready,
	}
}
