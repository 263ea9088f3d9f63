package reconcile

import (
	"cmp"
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
	"github.com/limpet-io/limpet/internal/spread/scalein"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// spreads are the WorkloadSpreads of a ReplicaSet's pods.
type spreads struct {
	objects []appsv1beta1.WorkloadSpread // those of the nearest owner first, and then by name, as for new pods
	chain   []workload.Owner
	says    map[string]spread.Spread // by name, of those that can be read
}

// chainOf is the ReplicaSet and the workload that controls it.
func chainOf(set *appsv1.ReplicaSet) []workload.Owner {
	chain := []workload.Owner{{Target: workload.Target{Group: appsv1.GroupName, Kind: "ReplicaSet", Name: set.Name}, UID: set.UID}}
	if owner, owned := workload.ControllerOf(set); owned {
		chain = append(chain, owner)
	}
	return chain
}

// spreadsOf finds the spreads of pods with these owners.
func (r *Reconciler) spreadsOf(ctx context.Context, namespace string, chain []workload.Owner) (spreads, error) {
	s := spreads{chain: chain, says: map[string]spread.Spread{}}
	for _, owner := range chain {
		found, err := cluster.SpreadsOf(ctx, r.Client, namespace, owner.Target)
		if err != nil {
			return s, err
		}
		found = slices.DeleteFunc(found, func(ws appsv1beta1.WorkloadSpread) bool { return ws.DeletionTimestamp != nil })
		slices.SortFunc(found, func(a, b appsv1beta1.WorkloadSpread) int { return cmp.Compare(a.Name, b.Name) })
		s.objects = append(s.objects, found...)
	}
	return s, nil
}

// read reads what the spreads of a group say. Of a workload with 100 pods, a maximum in percent is its number.
func (s *spreads) read() error {
	var errs []error
	for i := range s.objects {
		says, err := spread.Of(&s.objects[i], 100)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.says[says.Name] = says
	}
	return errors.Join(errs...)
}

// of returns the spread of a pod; nil for none.
func (s *spreads) of(pod *corev1.Pod) *spread.Spread {
	for i := range s.objects {
		covered, err := spread.Covers(&s.objects[i], pod.Labels, s.chain)
		if says, known := s.says[s.objects[i].Name]; covered && known && err == nil {
			return &says
		}
	}
	return nil
}

// subsetOf returns the subset that the pod was given, or the subset of its node if the pod was
// there before the spread.
func subsetOf(s *spread.Spread, pod *corev1.Pod, node *corev1.Node) string {
	match, err := appsv1beta1.ParseMatch(pod.Annotations[appsv1beta1.AnnotationMatchedSpread])
	if err == nil && match.Name == s.Name {
		return match.Subset
	}
	return spread.SubsetOf(*s, pod, node)
}

// subsetsOf is what the order needs to know of a spread.
func subsetsOf(s spread.Spread) (subsets []scalein.Subset) {
	for _, o := range s.Subsets {
		subsets = append(subsets, scalein.Subset{Name: o.Name, Max: o.Max, Percent: o.Percent})
	}
	return subsets
}
