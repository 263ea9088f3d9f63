package disruption

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/groups"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

func placeOf(of *limpetv1alpha1.DistributedPodDisruptionBudget, pod *corev1.Pod) string {
	return groups.PlaceOf(of.Spec.Groups, pod)
}

// weigh returns how many pods a decision looks at again, or makes room for, because budgets have groups.
func (r *Reader) weigh(ctx context.Context, namespace string, covering []covering, objects int) (weight int, _ error) {
	wanted, err := r.wanted(ctx, namespace)
	if err != nil {
		return 0, err
	}
	for i := range covering {
		of := covering[i].divided
		if of == nil {
			continue
		}
		weight += wanted
		if s := of.Spec.Groups; s != nil && s.Sliding != nil && s.Sliding.OrderBy == limpetv1alpha1.OrderLabel { // many pods may share a place
			weight += (groups.Most(s) - 1) * objects
		}
	}
	return weight, nil
}

// wanted returns how many pods may get a place before they exist.
func (r *Reader) wanted(ctx context.Context, namespace string) (n int, err error) {
	store, err := cluster.StoreOf(ctx, r.cached, &appsv1.StatefulSet{})
	if err != nil {
		return 0, err
	}
	sets, err := store.In(namespace)
	for _, set := range sets {
		_, wants := cluster.MakesPods(set)
		n = min(n+int(min(wants, groups.MostPlaced)), groups.MostPlaced)
	}
	return n, err
}

// Groups divides what Facts found of budget.Undivided into all groups.
func (r *Reader) Groups(ctx context.Context, of *limpetv1alpha1.DistributedPodDisruptionBudget, f *Covered) ([]budget.Budget, error) {
	members, err := r.members(ctx, of, f)
	return budget.Split(f.Budget, of.Spec.Groups, members, nil), err
}

// groupsOf returns the groups of a pod, which stands in them as the request has it.
func (r *Reader) groupsOf(ctx context.Context, of *limpetv1alpha1.DistributedPodDisruptionBudget, f *Covered, pod *corev1.Pod, now time.Time) ([]budget.Budget, error) {
	members, err := r.members(ctx, of, f)
	if err != nil {
		return nil, err
	}
	place, whole := placeOf(of, pod), f.Budget
	whole.Pods = with(whole.Pods, budget.PodOf(pod, whole.Rules.Stable, now))
	at := slices.IndexFunc(whole.Pods, func(p budget.Pod) bool { return p.UID == string(pod.UID) })
	if at == len(members.Places) {
		members.Places = append(members.Places, "")
	}
	members.Places[at] = place
	return budget.Split(whole, of.Spec.Groups, members, &place), nil
}

// members finds the place of each pod, and how many pods are wanted at each.
func (r *Reader) members(ctx context.Context, of *limpetv1alpha1.DistributedPodDisruptionBudget, f *Covered) (budget.Members, error) {
	m := budget.Members{Sizes: groups.Sizes{At: map[string]int32{}}}
	living := map[workload.Target]map[string]int32{} // without a name for pods that no workload makes again
	for i, pod := range f.Pods {
		place := placeOf(of, pod)
		m.Places = append(m.Places, place)
		if f.Budget.Pods[i].Finished {
			continue
		}
		by := f.maker(i)
		if living[by] == nil {
			living[by] = map[string]int32{}
		}
		living[by][place]++
	}
	if f.wants == nil { // the size is the number of pods, or not known
		for _, at := range living {
			m.Sizes.Add(of.Spec.Groups, groups.Workload{Living: at, Wants: sum(at)})
		}
		return m, nil
	}
	all, err := r.stores(ctx)
	if err != nil {
		return m, err
	}
	m.Sizes.Add(of.Spec.Groups, groups.Workload{Living: living[workload.Target{}], Wants: int32(f.Budget.Bare)})
	for _, target := range byText(f.wants) {
		w := groups.Workload{Wants: f.wants[target], Living: living[target]}
		if o := objectOf(all, of.Namespace, target); o != nil {
			if template, _ := cluster.MakesPods(o); template != nil {
				w.Labels = template.Labels
			}
			if set, ok := o.(*appsv1.StatefulSet); ok && target.Group == appsv1.GroupName {
				w.Set, w.Start = set.Name, startOf(set)
			}
		}
		m.Sizes.Add(of.Spec.Groups, w)
	}
	return m, nil
}

func objectOf(all map[schema.GroupKind]kindStore, namespace string, target workload.Target) client.Object {
	if of, cached := all[target.GroupKind()]; cached {
		if o, found := of.Get(namespace, target.Name); found {
			return o
		}
	}
	return nil
}

func startOf(set *appsv1.StatefulSet) int32 {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return set.Spec.Ordinals.Start
}

func sum(at map[string]int32) (n int32) {
	for _, of := range at {
		n += of
	}
	return n
}

// maker is the workload that makes a pod again, among those that the size counts.
func (f *Covered) maker(pod int) workload.Target {
	for _, owner := range f.chains[pod] {
		if _, counted := f.wants[owner.Target]; counted {
			return owner.Target
		}
	}
	return workload.Target{}
}
