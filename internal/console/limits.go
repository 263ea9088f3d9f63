package console

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/groups"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// limit is a budget of any kind, or a group of one, with the units that it has.
type limit struct {
	name    string
	covers  func(pod *corev1.Pod) bool // nil for a group
	exempts func(pod *corev1.Pod) bool
	// most is how many pods may be unavailable at a time, left how many of these units are free,
	// and held how many belong to pods that wait for their node.
	most, left, held int32
}

// limits are the pods and the budgets of each namespace, and the groups of each pod.
type limits struct {
	pods   map[string][]*corev1.Pod
	sets   map[types.NamespacedName]*appsv1.StatefulSet
	whole  map[string][]*limit
	groups map[types.NamespacedName][]*limit
	book   ledger.Book // pods that were let go and are not yet seen to be gone
}

// limitsOf returns the budgets of the facts. One that cannot be read covers nothing here; the
// command status names it.
func limitsOf(f *facts.Facts) limits {
	g := limits{
		pods: map[string][]*corev1.Pod{}, sets: map[types.NamespacedName]*appsv1.StatefulSet{}, whole: map[string][]*limit{},
		groups: map[types.NamespacedName][]*limit{}, book: ledger.Book{Entries: map[string]ledger.Entry{}},
	}
	for i := range f.Pods {
		g.pods[f.Pods[i].Namespace] = append(g.pods[f.Pods[i].Namespace], &f.Pods[i])
	}
	for i := range f.StatefulSets {
		g.sets[types.NamespacedName{Namespace: f.StatefulSets[i].Namespace, Name: f.StatefulSets[i].Name}] = &f.StatefulSets[i]
	}
	for _, b := range f.Books {
		for _, e := range b.Entries {
			if use := ledger.Use(e.Use); use != ledger.Placed {
				g.book.Entries[string(e.UID)] = ledger.Entry{Use: use, Expires: e.Expires.Time}
			}
		}
	}
	for i := range f.Budgets {
		b := &f.Budgets[i]
		matcher, err := budget.MatcherOf(b)
		if err != nil {
			continue
		}
		g.whole[b.Namespace] = append(g.whole[b.Namespace], &limit{
			name:    "PodUnavailableBudget/" + b.Name,
			covers:  func(pod *corev1.Pod) bool { return matcher.Covers(pod, f.Chain(pod)) },
			exempts: func(pod *corev1.Pod) bool { return matcher.Exempts(pod) },
			most:    b.Status.TotalReplicas - b.Status.DesiredAvailable, left: b.Status.UnavailableAllowed,
		})
	}
	for i := range f.Divided {
		g.divide(&f.Divided[i], f.Now)
	}
	for i := range f.DisruptionBudgets {
		b := &f.DisruptionBudgets[i]
		if one := limitOf(b); one != nil {
			g.whole[b.Namespace] = append(g.whole[b.Namespace], one)
		}
	}
	return g
}

// divide adds a limit for each group of a budget, by the pods that there are and those that StatefulSets lack. Of other
// workloads, what is missing is not known here.
func (g limits) divide(of *limpetv1alpha1.DistributedPodDisruptionBudget, now time.Time) {
	object := budget.Undivided(of)
	matcher, err := budget.MatcherOf(object)
	whole, _ := budget.Of(object)
	if err != nil {
		return
	}
	m := budget.Members{Sizes: groups.Sizes{At: map[string]int32{}}}
	living := map[workload.Target]map[string]int32{}
	for _, pod := range g.pods[of.Namespace] {
		// The successor of a pod of a StatefulSet is made when the pod has gone: its place lacks a pod until then.
		owner, _ := workload.OwnerOf(pod)
		if (workload.Alive(pod) || owner.Kind == "StatefulSet" && !workload.Ended(pod)) && matcher.Covers(pod, nil) {
			place := groups.PlaceOf(of.Spec.Groups, pod)
			if living[owner] == nil {
				living[owner] = map[string]int32{}
			}
			living[owner][place]++
			m.Places, whole.Pods = append(m.Places, place), append(whole.Pods, budget.PodOf(pod, whole.Rules.Stable, now))
		}
	}
	for owner, at := range living {
		m.Sizes.Add(of.Spec.Groups, g.workload(of.Namespace, owner, at))
	}
	for _, b := range budget.Split(whole, of.Spec.Groups, m, nil) {
		n := budget.Count(b, g.book, now)
		one := &limit{
			name: "DistributedPodDisruptionBudget/" + of.Name, most: n.Total - n.Desired, left: n.Allowed,
			exempts: func(pod *corev1.Pod) bool { return matcher.Exempts(pod) },
		}
		if len(of.Spec.Federation) > 0 { // the number is that of all sites: a unit may come for the next wave
			one.most, one.left = max(of.Status.DisruptionsAllowed, 1), of.Status.DisruptionsAllowed
		}
		if b.Group != "" {
			one.name += " (group " + b.Group + ")"
		}
		for _, pod := range b.Pods {
			at := types.NamespacedName{Namespace: of.Namespace, Name: pod.Name}
			g.groups[at] = append(g.groups[at], one)
		}
	}
}

// workload returns how many pods a StatefulSet wants; of another workload, how many live.
func (g limits) workload(namespace string, owner workload.Target, living map[string]int32) groups.Workload {
	w := groups.Workload{Living: living}
	if set := g.sets[types.NamespacedName{Namespace: namespace, Name: owner.Name}]; set != nil && owner.Group == appsv1.GroupName && owner.Kind == "StatefulSet" {
		w.Set, w.Wants, w.Labels = set.Name, ptr.Deref(set.Spec.Replicas, 1), set.Spec.Template.Labels
		if set.Spec.Ordinals != nil {
			w.Start = set.Spec.Ordinals.Start
		}
		return w
	}
	for _, n := range living {
		w.Wants += n
	}
	return w
}

func limitOf(b *policyv1.PodDisruptionBudget) *limit {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil
	}
	return &limit{
		name:    "PodDisruptionBudget/" + b.Name,
		covers:  func(pod *corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) },
		exempts: func(*corev1.Pod) bool { return false },
		most:    b.Status.ExpectedPods - b.Status.DesiredHealthy, left: b.Status.DisruptionsAllowed,
	}
}

// of returns the budgets and groups that cover a pod.
func (g limits) of(pod *corev1.Pod) []*limit {
	all := slices.Clone(g.groups[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}])
	for _, one := range g.whole[pod.Namespace] {
		if one.covers(pod) {
			all = append(all, one)
		}
	}
	return all
}

// needs returns those that a pod needs a unit of; a pod that terminates needs none.
func (g limits) needs(pod *corev1.Pod) []*limit {
	return slices.DeleteFunc(g.of(pod), func(one *limit) bool { return pod.DeletionTimestamp != nil || one.exempts(pod) })
}

// waves gives each pod the wave in which it can go, and returns their number. The first wave has
// the units that are left now. Each later wave has all units but those of pods that return to their
// node: these are not available before the node is uncordoned.
func waves(pods []Drained) int {
	last := 0
	for wave := 1; ; wave++ {
		gone := 0
		for i := range pods {
			d := &pods[i]
			if d.Outcome == Stays || d.Wave > 0 {
				continue
			}
			if d.Blocked = d.take(); d.Blocked == "" {
				d.Wave, last = wave, wave
				gone++
			}
		}
		if gone == 0 && wave > 1 {
			return last
		}
		for _, d := range pods {
			for _, one := range d.needs {
				one.left = one.most - one.held
			}
		}
	}
}

// leastWaves returns how many waves the pods that can go need in any order: of each budget and each group, no more go
// in one wave than may be away at a time.
func leastWaves(pods []Drained) (least int) {
	going := map[*limit]int32{}
	for _, d := range pods {
		if d.Wave > 0 {
			for _, one := range d.needs {
				least = max(least, int(going[one]/max(one.most, 1))+1)
				going[one]++
			}
		}
	}
	return least
}

// take takes a unit of each budget of a pod, or says which budget has none left.
func (d *Drained) take() string {
	for _, one := range d.needs {
		switch {
		case one.left > 0:
		case one.most < 1:
			return one.name + " permits no pod to be unavailable"
		default:
			return one.name + " has no unit left: pods that wait for their node hold them"
		}
	}
	for _, one := range d.needs {
		one.left--
		if d.Outcome == Returns {
			one.held++
		}
	}
	return ""
}
