package scalein

import (
	"cmp"
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/cluster"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/scalein"
	"github.com/limpet-io/limpet/pkg/spread"
	"github.com/limpet-io/limpet/pkg/workload"
)

// spreads are the WorkloadSpreads of a ReplicaSet's pods.
type spreads struct {
	objects []appsv1beta1.WorkloadSpread // the oldest first
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
		for i := range found {
			if found[i].DeletionTimestamp == nil {
				s.objects = append(s.objects, found[i])
			}
		}
	}
	slices.SortFunc(s.objects, func(a, b appsv1beta1.WorkloadSpread) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return s, nil
}

// read reads what the spreads of a group say for a workload of its present size.
func (r *Reconciler) read(ctx context.Context, g *group, s *spreads) error {
	var errs []error
	for i := range s.objects {
		size, err := r.size(ctx, g, &s.objects[i])
		if err != nil {
			return err
		}
		says, err := spread.Of(&s.objects[i], size)
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
		subsets = append(subsets, scalein.Subset{Name: o.Name, Max: o.Max})
	}
	return subsets
}

// size is how many pods the target of a spread wants. The caches hold Deployments and ReplicaSets;
// the size of another target is read, if the spread has percentages.
func (r *Reconciler) size(ctx context.Context, g *group, ws *appsv1beta1.WorkloadSpread) (int32, error) {
	target := workload.TargetOf(ws.Spec.TargetReference)
	if filter := ws.Spec.TargetFilter; filter == nil || len(filter.ReplicasPathList) == 0 {
		if g.chain[0].Target == target && target.Group == appsv1.GroupName && target.Kind == "ReplicaSet" {
			return int32(g.wants), nil // also if a Deployment controls the ReplicaSet
		}
		if d, ok := g.workload.(*appsv1.Deployment); ok {
			return ptr.Deref(d.Spec.Replicas, 1), nil
		}
	}
	if !percentages(ws) {
		return spread.UnknownSize, nil
	}
	ref := ws.Spec.TargetReference
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	size, unknown, err := r.Sizes.Read(ctx, kind, client.ObjectKey{Namespace: g.namespace, Name: ref.Name}, r.Clock.Now(), r.Sizes.PathsOf(ws)...)
	if unknown != "" {
		return spread.UnknownSize, nil
	}
	return size, err
}

// percentages tells whether a maximum of a spread depends on the size of its target.
func percentages(ws *appsv1beta1.WorkloadSpread) bool {
	return slices.ContainsFunc(ws.Spec.Subsets, func(s appsv1beta1.WorkloadSpreadSubset) bool {
		return s.MaxReplicas != nil && s.MaxReplicas.Type == intstr.String
	})
}
