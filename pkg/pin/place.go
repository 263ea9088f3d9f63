package pin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/limpet-io/limpet/pkg/fit"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// AnnotationPlace on a pod names the node labels that its PersistentPodState requires of
// its node. The pod has them in its affinity, which cannot be loosened any more.
const AnnotationPlace = "limpet.dev/required-place"

// PlaceVerdict is what becomes of a pod whose place is required.
type PlaceVerdict int

const (
	// Hold means that the pod goes there or nowhere.
	Hold PlaceVerdict = iota
	// LetGo means that the pod may go elsewhere.
	LetGo
)

// patience is how long a pod waits for a place that another hard constraint of its own
// forbids. That one wins, but for the moments in which the pods it counts are rebuilt.
const patience = time.Minute

// ReasonNotRequired of a PlaceDecision: the place is not what the PersistentPodState
// requires now. The other reasons are those of a Decision, CauseNodeRefused
// and CauseConstraint.
const ReasonNotRequired = "NotRequired"

// PlaceInput is what a PlaceDecision is made from.
type PlaceInput struct {
	Pod *corev1.Pod
	// Place is the node labels that are required of the pod's node.
	Place labels.Set
	State *appsv1beta1.PersistentPodState
	// Record of the pod in the state.
	Record appsv1beta1.PodState
	// Refusal is what the scheduler said of the pod, if anything.
	Refusal string
	// Nodes are all of the cluster's.
	Nodes []*corev1.Node
	// Now is the time of the decision.
	Now time.Time
}

// PlaceDecision says whether a pod is held to its required place; and while the place
// does not take the pod, why, and what would help.
type PlaceDecision struct {
	Verdict PlaceVerdict
	Reason  string
	Message string
	Remedy  string
	// Again says after how long to decide anew though nothing changed; 0 for never.
	Again time.Duration
}

// PlanPlace decides whether a pod is let go from its required place. The webhook asks
// when a pod is created, the controller while it waits.
func PlanPlace(in PlaceInput) PlaceDecision {
	release, _ := ParseRelease(in.State.Annotations) // the webhook has refused what is wrong
	there := fit.FilterOrAll(fit.WithLabels(in.Nodes, in.Place), func(n *corev1.Node) bool { return fit.Admits(in.Pod, n) })
	there = fit.FilterOrAll(there, func(n *corev1.Node) bool { return !fit.Dedicated(n, in.Pod) })
	slices.SortFunc(there, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })

	d := PlaceDecision{}
	d.Reason, d.Message, d.Remedy = barred(in, there)
	left, ends := remaining(in, d.Reason, release.After)
	switch {
	case replaced(in.State, in.Record, in.Place):
		return PlaceDecision{Verdict: LetGo, Reason: ReasonNotRequired, Message: fmt.Sprintf(
			"PersistentPodState %s does not require %s any more", in.State.Name, in.Place)}
	case in.Record.ReleasedAt != nil || excused(release.On, there, in.Pod) || ends && left <= 0:
		d.Verdict = LetGo
	case ends:
		d.Again = left
	}
	if d.Reason == CauseConstraint && (release.After == 0 || release.After > patience) {
		release.After = patience
	}
	switch {
	case release.After > 0:
		d.Remedy += fmt.Sprintf(", or wait: it may go elsewhere after %s", release.After)
	case len(release.On) == 0:
		d.Remedy += fmt.Sprintf(", or let it go elsewhere: annotate PersistentPodState %s with %s or %s",
			in.State.Name, AnnotationReleaseAfter, AnnotationReleaseOn)
	}
	return d
}

// remaining is for how long a pod is held to its place yet; false when that does not end.
// The user's time is counted from when the pod began to wait, whatever for; the patience
// with a constraint from when that became the reason.
func remaining(in PlaceInput, reason string, after time.Duration) (left time.Duration, ends bool) {
	waiting := in.Record.Waiting
	if left, ends = after, after > 0; ends && waiting != nil {
		left = waiting.Since.Add(after).Sub(in.Now)
	}
	if reason != CauseConstraint {
		return left, ends
	}
	own := patience
	if waiting != nil && waiting.Reason == reason && waiting.ReasonSince != nil {
		own = waiting.ReasonSince.Add(patience).Sub(in.Now)
	}
	if !ends || own < left {
		left = own
	}
	return left, true
}

// barred says why the nodes of a place do not take a pod, of several nodes by the first.
// It blames a constraint only when there is no node in the place worth waiting for.
func barred(in PlaceInput, there []*corev1.Node) (reason, message, remedy string) {
	if len(there) == 0 {
		return ReasonNodeGone, fmt.Sprintf("no node has %s", in.Place), "add a node with these labels"
	}
	well := slices.DeleteFunc(slices.Clone(there), func(n *corev1.Node) bool {
		reason, _ := fit.Obstacle(n, in.Pod)
		return reason != ""
	})
	switch {
	case len(well) == len(there) && constrained(in, there):
		return CauseConstraint, "a volume, a topologySpreadConstraint or the selector of the pod forbids it node " + well[0].Name, "lift the constraint"
	case len(well) > 0:
		return CauseNodeRefused, "the scheduler refuses node " + well[0].Name, "make room there"
	}
	name := there[0].Name
	reason, message = fit.Obstacle(there[0], in.Pod)
	switch reason {
	case ReasonNodeCordoned:
		remedy = "uncordon it"
	case ReasonNodeTainted:
		remedy = "remove the taint"
	default:
		remedy = "bring it back"
	}
	return reason, fmt.Sprintf("node %s %s", name, message), remedy
}

// excused tells whether no node of a place is one to wait for.
func excused(on []Fate, there []*corev1.Node, pod *corev1.Pod) bool {
	if len(there) == 0 {
		return slices.Contains(on, FateDeleted)
	}
	return !slices.ContainsFunc(there, func(n *corev1.Node) bool {
		return !slices.ContainsFunc(fatesOf(n, pod), func(f Fate) bool { return slices.Contains(on, f) })
	})
}

// astray tells whether a node is not in the place that a state requires of a pod.
func astray(s *appsv1beta1.PersistentPodState, record appsv1beta1.PodState, node *corev1.Node) bool {
	term := s.Spec.RequiredPersistentTopology
	return term != nil && slices.ContainsFunc(term.Keys, func(key string) bool {
		value, known := record.NodeTopologyLabels[key]
		return known && node.Labels[key] != value
	})
}

// replaced tells whether a state requires another place than one that a pod was given, or
// none. Where nothing is known of what it requires now, the pod would be held to nothing
// at all; nobody asked for that, so the place it has counts on.
func replaced(s *appsv1beta1.PersistentPodState, record appsv1beta1.PodState, place labels.Set) bool {
	term := s.Spec.RequiredPersistentTopology
	if term == nil {
		return true
	}
	now := labels.Set{}
	for _, key := range term.Keys {
		if value, known := record.NodeTopologyLabels[key]; known {
			now[key] = value
		}
	}
	if len(now) == 0 {
		return false
	}
	for key, value := range place {
		// What is not recorded, as after the state was made anew, only the pod remembers.
		if recorded, known := now[key]; known && recorded != value || !slices.Contains(term.Keys, key) {
			return true
		}
	}
	return false
}

// placeOf is the place that a pod was given when it was created; nil for none.
func placeOf(pod *corev1.Pod) labels.Set {
	text := pod.Annotations[AnnotationPlace]
	if text == "" {
		return nil
	}
	place, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil { // somebody else wrote it
		return nil
	}
	return place
}
