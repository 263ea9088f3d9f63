package console

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/budget/groups"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// BudgetParts are the facts that Budgets needs.
var BudgetParts = []facts.Part{facts.Pods, facts.ReplicaSets, facts.StatefulSets, facts.Budgets, facts.Divided, facts.DisruptionBudgets, facts.Books}

// BudgetReport is what the budgets of a namespace, or of all, let go now.
type BudgetReport struct {
	Budgets []budgetNow `json:"budgets"`
}

// budgetNow is one budget.
type budgetNow struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Allowed is how many further pods may become unavailable together.
	Allowed int32 `json:"allowed"`
	Healthy int32 `json:"healthy"`
	Total   int32 `json:"total"`
	// Groups is how many there are, and Blocked how many of them let no pod go.
	Groups  int32 `json:"groups,omitempty"`
	Blocked int32 `json:"blocked,omitempty"`
	// Share is what lies here of the units that several budgets divide.
	Share *int32 `json:"share,omitempty"`
	// Problems are those of peers.
	Problems []string `json:"problems,omitempty"`
	// Places are the pods in the order of the ring or row, or of their names. Only of a budget that was asked for.
	Places []PodNow `json:"places,omitempty"`
}

// PodNow is a pod of a budget and what it may do now.
type PodNow struct {
	Name  string `json:"name,omitempty"` // of the place, for pods that share one
	Pod   string `json:"pod"`
	State Stance `json:"state"`
}

// Stance is what a pod of a budget may do now.
type Stance string

const (
	// MayGo is a pod that each of its budgets has a unit for.
	MayGo Stance = "MayGo"
	// MustStay is a pod that one of its budgets lets not go.
	MustStay Stance = "MustStay"
	// Away is a pod that is not available, or was let go and will not be.
	Away Stance = "Away"
)

// Budgets returns the budgets in the order of their names; with a name, those of that name with their pods.
func Budgets(f *facts.Facts, name string) BudgetReport {
	r := BudgetReport{Budgets: []budgetNow{}}
	add := func(b budgetNow, of *limpetv1alpha1.BudgetGroups) {
		switch name {
		case b.Name:
			b.Places = limitsOf(f).places(b, of, f.Now)
		case "":
		default:
			return
		}
		r.Budgets = append(r.Budgets, b)
	}
	for i := range f.Budgets {
		b, s := &f.Budgets[i], &f.Budgets[i].Status
		add(budgetNow{
			Kind: "PodUnavailableBudget", Namespace: b.Namespace, Name: b.Name, Allowed: s.UnavailableAllowed, Healthy: s.CurrentAvailable, Total: s.TotalReplicas,
		}, nil)
	}
	for i := range f.Divided {
		add(dividedNow(&f.Divided[i]), f.Divided[i].Spec.Groups)
	}
	for i := range f.DisruptionBudgets {
		b, s := &f.DisruptionBudgets[i], &f.DisruptionBudgets[i].Status
		add(budgetNow{
			Kind: "PodDisruptionBudget", Namespace: b.Namespace, Name: b.Name, Allowed: s.DisruptionsAllowed, Healthy: s.CurrentHealthy, Total: s.ExpectedPods,
		}, nil)
	}
	slices.SortStableFunc(r.Budgets, func(a, b budgetNow) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return r
}

// Rings returns the budgets with groups, and their pods; none if not all was read that decides which pods may go.
func Rings(f *facts.Facts) (all []budgetNow) {
	if f.Unknown(BudgetParts...) != "" {
		return nil
	}
	g := limitsOf(f)
	for i := range f.Divided {
		if of := f.Divided[i].Spec.Groups; of != nil {
			b := dividedNow(&f.Divided[i])
			b.Places = g.places(b, of, f.Now)
			all = append(all, b)
		}
	}
	return all
}

func dividedNow(b *limpetv1alpha1.DistributedPodDisruptionBudget) budgetNow {
	s := &b.Status
	now := budgetNow{
		Kind: "DistributedPodDisruptionBudget", Namespace: b.Namespace, Name: b.Name,
		Allowed: s.DisruptionsAllowed, Healthy: s.CurrentHealthy, Total: s.ExpectedPods, Groups: s.TotalGroups, Blocked: s.BlockedGroups,
	}
	if len(s.Shares) > 0 {
		now.Share = new(s.Shares[0].Number)
	}
	for _, peer := range s.FederatedStatuses {
		if peer.Problem != "" {
			now.Problems = append(now.Problems, peer.Site+": "+peer.Problem)
		}
	}
	return now
}

// places returns the pods of a budget in the order of its places.
func (g limits) places(b budgetNow, of *limpetv1alpha1.BudgetGroups, now time.Time) (all []PodNow) {
	title, in := b.Kind+"/"+b.Name, map[string][]PodNow{}
	for _, pod := range g.pods[b.Namespace] {
		covered := !workload.Ended(pod) && slices.ContainsFunc(g.of(pod), func(one *limit) bool {
			return one.name == title || strings.HasPrefix(one.name, title+" (")
		})
		if !covered {
			continue
		}
		at := pod.Name
		if of != nil {
			at = groups.PlaceOf(of, pod)
		}
		in[at] = append(in[at], PodNow{Name: at, Pod: pod.Name, State: g.stance(pod, now)})
	}
	names := slices.Collect(maps.Keys(in))
	groups.Sort(names)
	for _, at := range names {
		slices.SortFunc(in[at], func(a, b PodNow) int { return strings.Compare(a.Pod, b.Pod) })
		all = append(all, in[at]...)
	}
	return all
}

// stance is that of a pod among its budgets.
func (g limits) stance(pod *corev1.Pod, now time.Time) Stance {
	if e, gone := g.book.Entries[string(pod.UID)]; !workload.Ready(pod) || pod.DeletionTimestamp != nil || gone && e.Holds(now) {
		return Away
	}
	if slices.ContainsFunc(g.needs(pod), func(one *limit) bool { return one.left < 1 }) {
		return MustStay
	}
	return MayGo
}
