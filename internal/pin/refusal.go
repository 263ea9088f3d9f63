package pin

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/platform/fit"
)

// constraintWords are the scheduler's words for hard constraints, in this version and former
// ones. The scheduler checks constraints after node affinity, so that a node which it
// refuses by one of these words is a node of the place.
var constraintWords = []string{
	"didn't match pod topology spread constraints",
	"had volume node affinity conflict",
	"didn't match PersistentVolume's node affinity",
	"had no available volume zone",
	"didn't satisfy plugin(s) [VolumeBinding",
}

// unschedulableWords are the scheduler's words for nodes that take no pods, or not this pod.
var unschedulableWords = []string{
	"were unschedulable",
	"had untolerated taint",
}

// notSelectedWord is the scheduler's word for nodes that the pod's affinity does not select.
const notSelectedWord = "didn't match Pod's node affinity/selector"

// refusalCount is how many nodes a refusal names. Only constraints count a node twice.
type refusalCount struct {
	all, rejected, elsewhere int
}

// forbiddenByConstraint reports whether hard constraints of the pod forbid it all nodes of its place, which take pods.
//
// The condition of a pod has no structured reason for this, only the message of the
// scheduler, and neither volumes nor the labels of all pods are in the cache. Without the
// message a pod whose volume lies elsewhere would wait forever, although the design promises
// that its own constraints win. An unknown message, as of another version, is never taken
// for a constraint: the pod waits, and limpet.dev/leave-after ends the wait.
//
// The message must fit the nodes as they are now. A message is outdated when it counts fewer
// nodes than exist, more unschedulable ones, or too many outside the place; the scheduler
// will write a new one.
func forbiddenByConstraint(in PlaceInput) bool {
	said, ok := countRefused(in.Refusal)
	return ok && said.all >= len(in.Nodes) && !outdated(in)
}

// outdated reports whether the scheduler refused the pod while more nodes took no pods than now, or while more nodes than
// now took none or were outside the place.
func outdated(in PlaceInput) bool {
	said, _ := countRefused(in.Refusal)
	rejected, elsewhere := 0, 0
	for _, n := range in.Nodes {
		switch {
		case len(fit.Untolerated(n, in.Pod)) > 0:
			rejected++
		case !in.Place.AsSelectorPreValidated().Matches(labels.Set(n.Labels)) || !fit.Admits(in.Pod, n):
			elsewhere++
		}
	}
	return said.rejected > rejected || said.elsewhere > rejected+elsewhere
}

// countRefused parses a count of the cluster's nodes by reason, as in "0/3 nodes are
// available: 1 Insufficient cpu, 2 node(s) were unschedulable. preemption: …"; false when
// one of the reasons is not listed above.
func countRefused(refusal string) (said refusalCount, ok bool) {
	ok = true
	_, text, _ := strings.Cut(refusal, "nodes are available: ")
	text, _, _ = strings.Cut(text, ". ")
	for item := range strings.SplitSeq(strings.TrimSuffix(text, "."), ", ") {
		number, words, _ := strings.Cut(item, " ")
		n, err := strconv.Atoi(number)
		says := func(word string) bool { return strings.Contains(words, word) }
		switch {
		case err != nil:
			ok = false
		case slices.ContainsFunc(unschedulableWords, says):
			said.rejected += n
			said.elsewhere += n
		case says(notSelectedWord):
			said.elsewhere += n
		case !slices.ContainsFunc(constraintWords, says):
			ok = false
		}
		said.all += n
	}
	return said, ok
}
