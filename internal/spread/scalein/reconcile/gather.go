package reconcile

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
	"github.com/limpet-io/limpet/internal/spread/scalein"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// situation is what is known about a group.
type situation struct {
	*group
	// inputs are the pods of each spread, and the pods of none.
	inputs []scalein.Input
	spread bool
	byName map[string]*corev1.Pod // active pods
	bound  int                    // how many of them have a node
}

// gather collects the facts about a group.
func (r *Reconciler) gather(ctx context.Context, g *group) (*situation, error) {
	s := &situation{group: g, byName: map[string]*corev1.Pod{}}
	found, err := r.spreadsOf(ctx, g.namespace, g.chain)
	if err != nil {
		return nil, err
	}
	s.spread = len(found.objects) > 0
	if err := found.read(); err != nil {
		return nil, err
	}
	return s, r.divide(ctx, s, &found)
}

// divide makes an input of the active pods of each spread.
func (r *Reconciler) divide(ctx context.Context, s *situation, found *spreads) error {
	bySpread := map[string]*scalein.Input{}
	for i := range s.pods {
		if !workload.Alive(&s.pods[i]) {
			continue
		}
		of := found.of(&s.pods[i])
		pod, err := r.pod(ctx, s.group, &s.pods[i], of)
		if err != nil {
			return err
		}
		name, subsets := "", []scalein.Subset(nil)
		if of != nil {
			name, subsets = of.Name, subsetsOf(*of)
		}
		if bySpread[name] == nil {
			bySpread[name] = &scalein.Input{Subsets: subsets, Old: s.old, Balanced: s.balanced}
		}
		bySpread[name].Pods = append(bySpread[name].Pods, pod)
		s.byName[pod.Name] = &s.pods[i]
		if pod.Bound {
			s.bound++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(bySpread)) {
		s.inputs = append(s.inputs, *bySpread[name])
	}
	return nil
}

// pod describes one pod. A cost that was just written counts although the cache does not show it.
func (r *Reconciler) pod(ctx context.Context, g *group, of *corev1.Pod, in *spread.Spread) (scalein.Pod, error) {
	p := scalein.Pod{
		Name: of.Name, Bound: of.Spec.NodeName != "", Running: of.Status.Phase == corev1.PodRunning, Ready: workload.Ready(of),
		Created: of.CreationTimestamp.Time, Since: readySince(of),
		Cost: of.Annotations[annotationCost], Mark: of.Annotations[appsv1beta1.AnnotationDeletionCost],
		Kruise: byKruise(of),
	}
	if cost, unseen := r.memory.unseen(g.key, of, r.Clock.Now()); unseen {
		p.Cost, p.Mark = cost, cost
	}
	node, err := r.node(ctx, of)
	if node != nil {
		p.Domain, p.Host = node.Labels[g.keys.domain], node.Labels[g.keys.host]
	}
	if in != nil {
		p.Subset = subsetOf(in, of, node)
	}
	return p, err
}

// node returns the node of a pod; nil for a pod without one.
func (r *Reconciler) node(ctx context.Context, pod *corev1.Pod) (*corev1.Node, error) {
	if pod.Spec.NodeName == "" {
		return nil, nil
	}
	return cluster.Node(ctx, r.Client, pod.Spec.NodeName)
}

func readySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
