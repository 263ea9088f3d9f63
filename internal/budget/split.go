package budget

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget/groups"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// distributed begins the names of DistributedPodDisruptionBudgets in books and messages. No object has
// a slash in its name.
const distributed = "dpdb/"

// Undivided is a DistributedPodDisruptionBudget without its groups, in the words of a PodUnavailableBudget.
func Undivided(b *limpetv1alpha1.DistributedPodDisruptionBudget) *policyv1beta1.PodUnavailableBudget {
	pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{
		Namespace: b.Namespace, Name: NameOf(b.Name), UID: b.UID, Annotations: b.Annotations, ResourceVersion: b.ResourceVersion,
		Generation: b.Generation, CreationTimestamp: b.CreationTimestamp,
	}}
	pub.Spec.Selector, pub.Spec.MaxUnavailable, pub.Spec.MinAvailable = b.Spec.Selector, b.Spec.MaxUnavailable, b.Spec.MinAvailable
	pub.Status.Conditions = b.Status.Conditions
	return pub
}

// NameOf is the name of a DistributedPodDisruptionBudget in books.
func NameOf(name string) string { return distributed + name }

// Distributed returns the name of the DistributedPodDisruptionBudget that a book means; false for a
// PodUnavailableBudget.
func Distributed(name string) (string, bool) { return strings.CutPrefix(name, distributed) }

// Title names the kind and the name of a budget as it stands in a book or in Decision.Blocking.
func Title(name string) string {
	if name, divided := Distributed(name); divided {
		return "DistributedPodDisruptionBudget " + name
	}
	return "PodUnavailableBudget " + name
}

// blocking names a budget, and the group of it that is meant.
func (b *Budget) blocking() string {
	if b.Group == "" {
		return b.Name
	}
	return b.Name + ", group " + clean(b.Group)
}

// Shown is the name of a budget, and of the group that is meant, without the kind.
func (b *Budget) Shown() string { return strings.TrimPrefix(b.blocking(), distributed) }

// Members are the pods of a budget by their places.
type Members struct {
	// Places of the pods of the budget, in the same order.
	Places []string
	Sizes  groups.Sizes
}

// Split returns a budget for each group; only those of one place unless it is nil.
func Split(whole Budget, spec *limpetv1alpha1.BudgetGroups, m Members, only *string) []Budget {
	pods := map[string][]Pod{}
	for i, place := range m.Places {
		pods[place] = append(pods[place], whole.Pods[i])
	}
	all := maps.Clone(m.Sizes.At)
	if all == nil {
		all = map[string]int32{}
	}
	for place := range pods {
		all[place] += 0
	}
	if len(all) == 0 && m.Sizes.Anywhere > 0 {
		all[""] = 0
	}
	places := slices.Collect(maps.Keys(all))
	if only == nil || spec != nil && spec.Sliding != nil {
		groups.Sort(places)
	}
	var divided []groups.Group
	if only != nil {
		divided = groups.With(spec, places, *only)
	} else {
		divided = groups.Of(spec, places)
	}
	out := make([]Budget, len(divided))
	for i, g := range divided {
		b := &out[i]
		*b = whole
		b.Group, b.Pods, b.Expected = g.Name, nil, m.Sizes.Anywhere
		for _, place := range g.Places {
			b.Pods, b.Expected = append(b.Pods, pods[place]...), b.Expected+m.Sizes.At[place]
		}
	}
	return out
}

// Together returns how many further pods may become unavailable together, where a pod needs a unit of
// each of its groups: what is left when pod after pod is taken that may go.
func Together(split []Budget, book ledger.Book, now time.Time) (n int32) {
	of := map[string][]int{} // groups by the UID of a pod
	left := make([]int32, len(split))
	var pods []*Pod
	for i := range split {
		left[i] = Count(split[i], book, now).Allowed
		for j := range split[i].Pods {
			p := &split[i].Pods[j]
			if of[p.UID] == nil {
				pods = append(pods, p)
			}
			of[p.UID] = append(of[p.UID], i)
		}
	}
	for _, p := range pods {
		in := of[p.UID]
		if slices.ContainsFunc(in, func(i int) bool { return left[i] == 0 || !split[i].counts(p) }) || inUse(book, p.UID, now) {
			continue
		}
		for _, i := range in {
			left[i]--
		}
		n++
	}
	return n
}
