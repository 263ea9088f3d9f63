package scalein

import (
	"strconv"
	"time"
)

// Step is the difference between the costs of two neighbouring subsets, as in OpenKruise.
const Step = 100

// layerStep is that difference in the balanced order, where the layers of a subset lie between
// two steps. 65 steps fit into the 32 bits of a cost. sizeStep is that difference between two sizes
// of a workload with percentages.
const (
	layerStep = 10_000_000
	sizeStep  = 30_000
)

// Input is what is known about one revision of a workload: the active pods of one ReplicaSet.
type Input struct {
	// Subsets of the spread in their order; nil for a workload without a spread.
	Subsets []Subset
	// Old tells that a newer revision exists. Its subsets are emptied in their reversed order.
	Old bool
	// Balanced asks for layers in each topology domain.
	Balanced bool
	// Waiting tells that a pod is on its way, so that a free layer stays free for this pod.
	Waiting bool
	Pods    []Pod
}

// Subset is one subset of a spread.
type Subset struct {
	Name string
	// Max is how many pods the subset takes; nil for any number. With Percent it is a percentage of
	// the size of the workload.
	Max     *int32
	Percent bool
}

// Pod is an active pod: a pod that neither terminates nor has ended.
type Pod struct {
	Name string
	// Subset is the name of the pod's subset; "" for none.
	Subset string
	// Bound tells that the pod has a node.
	Bound bool
	// Domain is the topology domain of the node, and Host the part of the domain in which the
	// pods of one domain take turns.
	Domain, Host string
	// Running and Ready are the pod's phase and condition.
	Running, Ready bool
	// Since is when the pod became Ready.
	Since, Created time.Time
	// Cost is the deletion cost of the pod, and Mark the cost that Limpet wrote; "" for none.
	Cost, Mark string
	// Kruise tells that OpenKruise wrote the cost, and no other program.
	Kruise bool
}

// Decision is what is written.
type Decision struct {
	Writes []Write
	// Foreign are the names of the pods whose cost is from a user or another program.
	Foreign []string
	// Holes tells that a layer is free, because the input is Waiting.
	Holes bool
}

// Write is the new cost of a pod.
type Write struct {
	Pod string
	// Cost is the text of the annotations; "" to remove them.
	Cost string
}

// owns reports whether the cost of a pod may be changed: the pod has none, Limpet wrote it, or
// OpenKruise did, whose spread Limpet has taken over.
func (in Input) owns(p Pod) bool {
	return p.Cost == "" || p.Cost == p.Mark || p.Mark == "" && p.Kruise && in.documented(p.Cost)
}

// documented reports whether OpenKruise writes such a cost to pods of a spread. A user may write the
// same number, so that the number alone does not tell its writer.
func (in Input) documented(cost string) bool {
	n := len(in.Subsets)
	value, valid := Parse(cost)
	return n > 0 && valid && value != 0 && value%Step == 0 && value >= int32(-Step*(n+1)) && value <= int32(Step*n)
}

// Parse reads a deletion cost as the ReplicaSet controller does, which takes an invalid one for 0.
func Parse(cost string) (value int32, valid bool) {
	if cost == "" || cost != "0" && cost[0] != '-' && (cost[0] < '1' || cost[0] > '9') {
		return 0, false
	}
	n, err := strconv.ParseInt(cost, 10, 32)
	if err != nil {
		return 0, false
	}
	return int32(n), true
}
