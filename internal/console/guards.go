package console

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/groups"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// guard is a budget of either kind, with the units that it has.
type guard struct {
	name, namespace string
	covers          func(pod *corev1.Pod) bool
	exempts         func(pod *corev1.Pod) bool
	// most is how many pods may be unavailable at a time, left how many of these units are free,
	// and held how many belong to pods that wait for their node.
	most, left, held int32
}

type guards []*guard

// guardsOf returns the budgets of the facts. One that cannot be read covers nothing here; the
// command status names it.
func guardsOf(f *facts.Facts) guards {
	var all guards
	for i := range f.Budgets {
		b := &f.Budgets[i]
		matcher, err := budget.MatcherOf(b)
		if err != nil {
			continue
		}
		all = append(all, &guard{
			name: "PodUnavailableBudget/" + b.Name, namespace: b.Namespace,
			covers:  func(pod *corev1.Pod) bool { return matcher.Covers(pod, f.Chain(pod)) },
			exempts: func(pod *corev1.Pod) bool { return matcher.Exempts(pod) },
			most:    b.Status.TotalReplicas - b.Status.DesiredAvailable, left: b.Status.UnavailableAllowed,
		})
	}
	for i := range f.Divided {
		all = append(all, groupsOf(f, &f.Divided[i])...)
	}
	for i := range f.DisruptionBudgets {
		if g := guardOf(&f.DisruptionBudgets[i]); g != nil {
			all = append(all, g)
		}
	}
	return all
}

// groupsOf returns a guard for each group of a budget, by the pods that there are.
func groupsOf(f *facts.Facts, of *limpetv1alpha1.DistributedPodDisruptionBudget) (all guards) {
	object := budget.Undivided(of)
	matcher, err := budget.MatcherOf(object)
	whole, _ := budget.Of(object)
	if err != nil {
		return nil
	}
	var m budget.Members
	living := map[string]int32{}
	for i := range f.Pods {
		if pod := &f.Pods[i]; pod.Namespace == of.Namespace && workload.Alive(pod) && matcher.Covers(pod, nil) {
			place := groups.PlaceOf(of.Spec.Groups, pod)
			living[place]++
			m.Places, whole.Pods = append(m.Places, place), append(whole.Pods, budget.PodOf(pod, whole.Rules.Stable, f.Now))
		}
	}
	m.Sizes.At = living
	for _, b := range budget.Split(whole, of.Spec.Groups, m, nil) {
		has := map[string]bool{}
		for _, pod := range b.Pods {
			has[pod.UID+"/"+pod.Name] = true
		}
		n := budget.Count(b, budget.Input{}.Book, f.Now)
		name := "DistributedPodDisruptionBudget/" + of.Name
		if b.Group != "" {
			name += " (group " + b.Group + ")"
		}
		all = append(all, &guard{
			name: name, namespace: of.Namespace, most: n.Total - n.Desired, left: n.Allowed, exempts: func(pod *corev1.Pod) bool { return matcher.Exempts(pod) },
			covers: func(pod *corev1.Pod) bool { return has[string(pod.UID)+"/"+pod.Name] },
		})
	}
	return all
}

func guardOf(b *policyv1.PodDisruptionBudget) *guard {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil
	}
	return &guard{
		name: "PodDisruptionBudget/" + b.Name, namespace: b.Namespace,
		covers:  func(pod *corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) },
		exempts: func(*corev1.Pod) bool { return false },
		most:    b.Status.ExpectedPods - b.Status.DesiredHealthy, left: b.Status.DisruptionsAllowed,
	}
}

// names returns the names of the budgets that a pod needs a unit of.
func (g guards) names(pod *corev1.Pod) []string {
	var names []string
	for _, one := range g {
		if one.namespace == pod.Namespace && one.covers(pod) && !one.exempts(pod) {
			names = append(names, one.name)
		}
	}
	return names
}

// waves gives each pod the wave in which it can go, and returns their number. The first wave has
// the units that are left now. Each later wave has all units but those of pods that return to their
// node: these are not available before the node is uncordoned.
func (g guards) waves(pods []Drained) int {
	last := 0
	for wave := 1; ; wave++ {
		gone := 0
		for i := range pods {
			d := &pods[i]
			if d.Outcome == Stays || d.Wave > 0 {
				continue
			}
			if d.Blocked = g.take(d); d.Blocked == "" {
				d.Wave, last = wave, wave
				gone++
			}
		}
		if gone == 0 && wave > 1 {
			return last
		}
		for _, one := range g {
			one.left = one.most - one.held
		}
	}
}

// take takes a unit of each budget of a pod, or says which budget has none left.
func (g guards) take(d *Drained) string {
	var needed guards
	for _, one := range g {
		if one.namespace == d.Namespace && slices.Contains(d.Budgets, one.name) {
			needed = append(needed, one)
		}
	}
	for _, one := range needed {
		switch {
		case one.left > 0:
		case one.most < 1:
			return one.name + " permits no pod to be unavailable"
		default:
			return one.name + " has no unit left: pods that wait for their node hold them"
		}
	}
	for _, one := range needed {
		one.left--
		if d.Outcome == Returns {
			one.held++
		}
	}
	return ""
}
