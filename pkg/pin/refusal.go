package pin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/limpet-io/limpet/pkg/fit"

	corev1 "k8s.io/api/core/v1"
)

// constraints are the scheduler's words for them, in this version and former ones.
// It asks about them after those of elsewhere, so that what it refuses by another word
// is a node of the place.
var constraints = []string{
	"didn't match pod topology spread constraints",
	"had volume node affinity conflict",
	"didn't match PersistentVolume's node affinity",
	"had no available volume zone",
	"didn't satisfy plugin(s) [VolumeBinding",
}

// barring are its words for nodes that take no pods, or not this one.
var barring = []string{
	"were unschedulable",
	"had untolerated taint",
}

// unasked is its word for nodes that the pod does not ask for, by its place among others.
const unasked = "didn't match Pod's node affinity/selector"

// counted is how many nodes a refusal names. None of them is counted twice but by
// constraints.
type counted struct {
	all, barred, elsewhere int
}

// constrained tells whether hard constraints of the pod itself refuse it each of these
// nodes, which are all of its place, and well. The refusal must fit what the nodes are now:
// one that counts fewer of them than there are, more that are barred, or too many as
// elsewhere, is of nodes as they were. The scheduler will say it anew.
func constrained(in PlaceInput, there []*corev1.Node) bool {
	said, ok := countRefused(in.Refusal)
	here, barred := 0, 0
	for _, n := range there {
		if fit.Admits(in.Pod, n) {
			here++
		}
	}
	for _, n := range in.Nodes {
		if len(fit.Untolerated(n, in.Pod)) > 0 {
			barred++
		}
	}
	return ok && said.all >= len(in.Nodes) && said.barred <= barred && said.elsewhere <= len(in.Nodes)-here
}

// countRefused reads a count of the cluster's nodes by reason, as in "0/3 nodes are
// available: 1 Insufficient cpu, 2 node(s) were unschedulable. preemption: …"; false when
// one of the reasons is none of those above.
func countRefused(refusal string) (said counted, ok bool) {
	_, text, _ := strings.Cut(refusal, "nodes are available: ")
	text, _, _ = strings.Cut(text, ". ")
	for item := range strings.SplitSeq(strings.TrimSuffix(text, "."), ", ") {
		number, words, _ := strings.Cut(item, " ")
		n, err := strconv.Atoi(number)
		says := func(word string) bool { return strings.Contains(words, word) }
		switch {
		case err != nil:
			return said, false
		case slices.ContainsFunc(barring, says):
			said.barred += n
			said.elsewhere += n
		case says(unasked):
			said.elsewhere += n
		case !slices.ContainsFunc(constraints, says):
			return said, false
		}
		said.all += n
	}
	return said, true
}
