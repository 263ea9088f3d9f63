package spread

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/fit"
)

// AdaptInput are the facts about a spread that skips subsets.
type AdaptInput struct {
	// Spread with the subsets that are skipped now.
	Spread Spread
	// Since is when each subset that is skipped began to be.
	Since map[string]time.Time
	// Pods are the active pods of the target.
	Pods []PodState
	// Slots of each revision, by revision and subset.
	Slots map[string]map[string]Slots
	// Complete tells that each owner has all the pods it wants, and no creation is on its way.
	Complete bool
	Now      time.Time
}

// PodState is what matters of one active pod.
type PodState struct {
	UID      types.UID
	Name     string
	Revision string
	// Subset of the pod; "" for none.
	Subset string
	// Home is the subset that would have the pod if pods could be scheduled there; "" for none.
	Home string
	// HomeFits tells that a node of that subset has room for the pod: see Fits.
	HomeFits bool
	// Refused is since when the scheduler finds no node; zero for a pod that has one. See Refused.
	Refused time.Time
	// Held tells that the pod waits for its required place. No other subset helps it.
	Held  bool
	Ready bool
}

// Actions are what to do about subsets and pods.
type Actions struct {
	// Waits counts, by subset, the pods that the scheduler has refused for long in subsets that are
	// not skipped for it.
	Waits map[string]int
	// Schedulable tells of each subset whether it takes pods; nil for a spread that is fixed.
	Schedulable map[string]bool
	// Skip and Recover are the subsets for which this changes.
	Skip, Recover []string
	// Reschedule are pods that the scheduler has refused for too long. They are deleted after the
	// skipped subsets are stored: else they could come back to the same subset.
	Reschedule []types.UID
	// Return is a pod that may come home now, if its budgets permit; "" for none.
	Return types.UID
	// Again says when to decide again although nothing changed; 0 for never.
	Again time.Duration
}

// Refused returns since when the scheduler finds no node for a pod; false for a pod that has a
// node, is gated, or waits for a preemption. ungated is when the last scheduling gate was removed,
// as far as is known: the condition of the pod has the time of the gate.
func Refused(pod *corev1.Pod, ungated time.Time) (since time.Time, ok bool) {
	if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "" || len(pod.Spec.SchedulingGates) > 0 {
		return time.Time{}, false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
			continue
		}
		since = c.LastTransitionTime.Time
		if ungated.After(since) {
			since = ungated
		}
		return since, true
	}
	return time.Time{}, false
}

// Fits reports whether a node of a subset has room for a pod. short tells of a node whether it has
// too little left.
func Fits(s Subset, pod *corev1.Pod, nodes []*corev1.Node, short func(*corev1.Node) bool) bool {
	a := newArea(&s, pod)
	return slices.ContainsFunc(nodes, func(n *corev1.Node) bool {
		if !a.contains(n) {
			return false
		}
		reason, _ := fit.Obstacle(n, a.pod)
		return reason == "" && !short(n)
	})
}

// Adapt decides which subsets are skipped, and which pods are created again.
func Adapt(in AdaptInput) Actions {
	var a Actions
	a.Waits = in.waits(&a)
	if in.Spread.Adaptive == nil {
		return a
	}
	a.Schedulable = map[string]bool{}
	last := len(in.Spread.Subsets) - 1
	for i := range in.Spread.Subsets {
		s := &in.Spread.Subsets[i]
		late := in.late(s.Name, &a)
		since, skipped := in.Since[s.Name]
		left := since.Add(in.Spread.Adaptive.Recovery).Sub(in.Now)
		switch {
		case i == last || !in.Spread.skips():
			a.Schedulable[s.Name] = true
		case len(late) > 0:
			a.Reschedule = append(a.Reschedule, late...)
			if !skipped {
				a.Skip = append(a.Skip, s.Name)
			}
			a.Schedulable[s.Name] = false
		case skipped && left > 0:
			a.again(left)
			a.Schedulable[s.Name] = false
		default:
			a.Schedulable[s.Name] = true
		}
		if skipped && a.Schedulable[s.Name] {
			a.Recover = append(a.Recover, s.Name)
		}
	}
	a.Return = in.comesHome(a)
	away := func(p PodState) bool { return p.Home != p.Subset && in.Spread.subset(p.Home) != nil }
	if in.Spread.Adaptive.Return && slices.ContainsFunc(in.Pods, away) {
		a.again(lookAtRoom)
	}
	return a
}

// lookAtRoom is the time between two looks for room in the subsets of pods that fell back. No event of
// the spread tells that a node has room now, or that a node has joined.
const lookAtRoom = 10 * time.Second

// again keeps the shortest time.
func (a *Actions) again(left time.Duration) {
	if a.Again == 0 || left < a.Again {
		a.Again = left
	}
}

// reported is how long the scheduler refuses a pod before a subset that is not skipped is reported.
// A new node takes some time.
const reported = 30 * time.Second

// waits counts the pods that wait for a node in subsets that are not skipped for it.
func (in AdaptInput) waits(a *Actions) map[string]int {
	waits := map[string]int{}
	for _, pod := range in.Pods {
		if pod.Refused.IsZero() || in.Spread.subset(pod.Subset) == nil || in.Spread.maySkip(pod.Subset) && !pod.Held {
			continue
		}
		if left := pod.Refused.Add(reported).Sub(in.Now); left > 0 {
			a.again(left)
			continue
		}
		waits[pod.Subset]++
	}
	return waits
}

// maySkip reports whether a subset is ever skipped.
func (s Spread) maySkip(subset string) bool {
	return s.skips() && subset != s.Subsets[len(s.Subsets)-1].Name
}

// WhyNotSkipped says why a subset is not skipped although a pod waits for a node.
func (s Spread) WhyNotSkipped(subset string) string {
	switch {
	case s.maySkip(subset):
		return "the pod requires its recorded place"
	case s.Adaptive == nil:
		return "the strategy is Fixed"
	case !s.skips():
		return "the strategy has no rescheduleCriticalSeconds"
	}
	return "it is the last subset"
}

// late returns the pods of a subset that the scheduler has refused for too long.
func (in AdaptInput) late(subset string, a *Actions) []types.UID {
	var late []types.UID
	for _, pod := range in.Pods {
		if pod.Subset != subset || pod.Refused.IsZero() || pod.Held || !in.Spread.maySkip(subset) {
			continue
		}
		if left := pod.Refused.Add(in.Spread.Adaptive.Critical).Sub(in.Now); left > 0 {
			a.again(left)
			continue
		}
		late = append(late, pod.UID)
	}
	slices.Sort(late)
	return late
}

// comesHome returns a pod that may return to its subset. One pod returns at a time: none does
// while a pod is missing, or while a pod in the subset is not Ready. So after a pod that returned
// too early, the next one returns when the subset has recovered again.
func (in AdaptInput) comesHome(a Actions) types.UID {
	if !in.Spread.Adaptive.Return || !in.Complete || len(a.Reschedule) > 0 {
		return ""
	}
	var best *PodState
	waits := map[string]bool{}
	for _, pod := range in.Pods {
		waits[pod.Subset] = waits[pod.Subset] || !pod.Ready
	}
	for i := range in.Pods {
		pod := &in.Pods[i]
		if !waits[pod.Home] && in.mayReturn(pod, a) && (best == nil || before(pod, best)) {
			best = pod
		}
	}
	if best == nil {
		return ""
	}
	return best.UID
}

func (in AdaptInput) mayReturn(pod *PodState, a Actions) bool {
	home := in.Spread.subset(pod.Home)
	if home == nil || pod.Subset == pod.Home || !pod.HomeFits || !a.Schedulable[pod.Home] || slices.Contains(a.Recover, pod.Home) {
		return false // a subset that recovers now is not stored yet
	}
	return choice{slots: in.Slots[pod.Revision]}.free(home)
}

// before orders the pods that may return: a pod that is not Ready loses nothing.
func before(a, b *PodState) bool {
	if a.Ready != b.Ready {
		return b.Ready
	}
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) < 0
}
