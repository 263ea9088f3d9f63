package pin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// PlaceVerdict is what becomes of a pod whose place is required.
type PlaceVerdict int

const (
	// Hold means that the pod runs there or nowhere.
	Hold PlaceVerdict = iota
	// LetGo means that the pod may run elsewhere.
	LetGo
)

// constraintGrace is how long a pod waits for a place that another hard constraint of the
// pod forbids, or that is of another cluster. The constraint wins, but not in the moments in which the pods
// it counts are rebuilt.
const constraintGrace = time.Minute

// ReasonNotRequired of a PlaceDecision says that the PersistentPodState does not require
// the place now. The other reasons are those of a Decision, CauseNodeRefused and
// CauseConstraint.
const ReasonNotRequired = "NotRequired"

// PlaceInput is what a PlaceDecision is made from.
type PlaceInput struct {
	Pod *corev1.Pod
	// Place is the node labels that are required of the pod's node.
	Place labels.Set
	State *appsv1beta1.PersistentPodState
	// Record of the pod in the state.
	Record appsv1beta1.PodState
	// Restored tells that the place is of another cluster, as far as is known: the pod is older than its workload, and
	// nothing is recorded. A backup restores pods with their affinity.
	Restored bool
	// Refusal is the scheduler's message about the pod; "" for none.
	Refusal string
	// Nodes are all nodes of the cluster.
	Nodes []*corev1.Node
	// Now is the time of the decision.
	Now time.Time
}

// PlaceDecision says whether a pod is held to its required place. While the place does not
// take the pod, it also says why, and what would help.
type PlaceDecision struct {
	Verdict PlaceVerdict
	Reason  string
	Message string
	Remedy  string
	// Again says when to decide again although nothing changed; 0 for never.
	Again time.Duration
}

// PlaceReasons are the reasons that PlanPlace gives. planStranded has ReasonNotStarted alone.
var PlaceReasons = []string{
	ReasonNotRequired, CauseNodeRefused, CauseConstraint, ReasonNodeGone, ReasonNodeNotReady, ReasonNodeCordoned, ReasonNodeTainted,
}

// PlanPlace decides whether a pod is released from its required place. The webhook calls it
// when a pod is created, the controller while the pod waits.
func PlanPlace(in PlaceInput) PlaceDecision {
	release, _ := ParseRelease(in.State.Annotations) // the webhook has refused what is wrong
	there := fit.FilterOrAll(fit.WithLabels(in.Nodes, in.Place), func(n *corev1.Node) bool { return fit.Admits(in.Pod, n) })
	there = fit.FilterOrAll(there, func(n *corev1.Node) bool { return !fit.Dedicated(n, in.Pod) })
	slices.SortFunc(there, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })

	d := PlaceDecision{}
	d.Reason, d.Message, d.Remedy = rejection(in, there)
	left, ends := remaining(in, d.Reason, release.After)
	switch {
	case replaced(in.State, in.Record, in.Place):
		return PlaceDecision{Verdict: LetGo, Reason: ReasonNotRequired, Message: fmt.Sprintf(
			"PersistentPodState %s no longer requires %s", in.State.Name, in.Place)}
	case in.Record.ReleasedAt != nil || notWorthWaiting(release.On, there, in.Pod) || ends && left <= 0:
		d.Verdict = LetGo
	case ends:
		d.Again = left
	}
	if lapses(in, d.Reason) && (release.After == 0 || release.After > constraintGrace) {
		release.After = constraintGrace
	}
	switch {
	case release.After > 0:
		d.Remedy += fmt.Sprintf(", or wait: it may go elsewhere after %s", release.After)
	case len(release.On) == 0:
		d.Remedy += fmt.Sprintf("; or let its pods go: kubectl -n %s annotate persistentpodstate %s %s", in.State.Namespace, in.State.Name, letGo(d.Reason))
	}
	return d
}

// lapses reports whether a pod is held for constraintGrace only: its place never takes it.
func lapses(in PlaceInput, reason string) bool {
	return reason == CauseConstraint || reason == ReasonNodeGone && in.Restored
}

// remaining returns how long a pod is still held to its place; false when that never ends.
// The user's time runs from when the pod began to wait, for any reason. The grace period of
// a reason that lapses runs from when it became the reason.
func remaining(in PlaceInput, reason string, after time.Duration) (left time.Duration, ends bool) {
	waiting := in.Record.Waiting
	if left, ends = after, after > 0; ends && waiting != nil {
		left = waiting.Since.Add(after).Sub(in.Now)
	}
	if !lapses(in, reason) {
		return left, ends
	}
	own := constraintGrace
	if waiting != nil && waiting.Reason == reason && waiting.ReasonSince != nil {
		own = waiting.ReasonSince.Add(constraintGrace).Sub(in.Now)
	}
	if !ends || own < left {
		left = own
	}
	return left, true
}

// rejection says why the nodes of a place do not take a pod; it names the first of several
// nodes. A constraint is the reason only when no node of the place is worth waiting for.
func rejection(in PlaceInput, there []*corev1.Node) (reason, message, remedy string) {
	if len(there) == 0 {
		return ReasonNodeGone, fmt.Sprintf("no node has %s", in.Place), "add a node with these labels"
	}
	well := slices.DeleteFunc(slices.Clone(there), func(n *corev1.Node) bool {
		reason, _ := fit.Obstacle(n, in.Pod)
		return reason != ""
	})
	switch {
	case len(well) == len(there) && forbiddenByConstraint(in):
		return CauseConstraint, "a volume, a topologySpreadConstraint or the selector of the pod forbids it node " + well[0].Name, "lift the constraint"
	case len(well) > 0 && outdated(in):
		return CauseNodeRefused, "the scheduler has not tried node " + well[0].Name + " again since more nodes take pods", "wait a moment"
	case len(well) > 0:
		return CauseNodeRefused, "the scheduler refuses node " + well[0].Name, "make room there"
	}
	name := there[0].Name
	reason, message = fit.Obstacle(there[0], in.Pod)
	switch reason {
	case ReasonNodeCordoned:
		remedy = "kubectl uncordon " + name
	case ReasonNodeTainted:
		remedy = "remove the taint"
	default:
		remedy = "bring it back; if it is dead, " + fit.SayDead(name)
	}
	return reason, fmt.Sprintf("node %s %s", name, message), remedy
}

// letGo is the annotation that lets pods go that wait for a reason.
func letGo(reason string) string {
	on := map[string]ReleaseTrigger{
		ReasonNodeGone: TriggerDeleted, ReasonNodeNotReady: TriggerOutOfService, ReasonNodeCordoned: TriggerCordoned, ReasonNodeTainted: TriggerTainted,
	}
	if trigger, known := on[reason]; known {
		return AnnotationLeaveOn + "=" + string(trigger)
	}
	return AnnotationLeaveAfter + "=10m"
}

// notWorthWaiting reports whether the user waits for no node of a place.
func notWorthWaiting(on []ReleaseTrigger, there []*corev1.Node, pod *corev1.Pod) bool {
	if len(there) == 0 {
		return slices.Contains(on, TriggerDeleted)
	}
	return !slices.ContainsFunc(there, func(n *corev1.Node) bool {
		return !slices.ContainsFunc(triggersOf(n, pod), func(f ReleaseTrigger) bool { return slices.Contains(on, f) })
	})
}

// outsideRequired reports whether a node is outside the place that a state requires of a pod.
func outsideRequired(s *appsv1beta1.PersistentPodState, record appsv1beta1.PodState, node *corev1.Node) bool {
	term := s.Spec.RequiredPersistentTopology
	return term != nil && slices.ContainsFunc(term.Keys, func(key string) bool {
		value, known := record.NodeTopologyLabels[key]
		return known && node.Labels[key] != value
	})
}

// inPlace reports whether a node has the recorded value of every label that a state asks for.
func inPlace(s *appsv1beta1.PersistentPodState, record appsv1beta1.PodState, node *corev1.Node) bool {
	keys := Keys(s)
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(key string) bool {
		value, known := record.NodeTopologyLabels[key]
		return !known || node.Labels[key] != value
	})
}

// replaced reports whether a state requires another place than the one that a pod was given,
// or none. Where nothing is recorded of what the state requires now, the pod's place stays
// in force: otherwise the pod would be held to nothing, although its user asks for a place.
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
		// After the state was re-created nothing is recorded, and only the pod knows its place.
		if recorded, known := now[key]; known && recorded != value || !slices.Contains(term.Keys, key) {
			return true
		}
	}
	return false
}

// placeOf returns the place that a pod was given when it was created; nil for none.
func placeOf(pod *corev1.Pod) labels.Set {
	text := pod.Annotations[podpatch.AnnotationPlace]
	if text == "" {
		return nil
	}
	place, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil { // the controller did not write it
		return nil
	}
	return place
}
