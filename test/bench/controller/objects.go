package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/bench/bed"
)

// perNamespace is how many StatefulSets a namespace has.
const perNamespace = 20

// cluster is what was made, in the order of sets and then ordinals.
type cluster struct {
	nodes []string
	sets  []*appsv1.StatefulSet
}

// probeSet has no owner.
var probeSet = testenv.AStatefulSet("probe", 1).In("probe").StatefulSet

// podAt is the i-th pod of all.
type podAt struct {
	set     *appsv1.StatefulSet
	ordinal int
	node    string
	ip      string
}

// pod spreads the pods over the sets, so that neighbours in the count are of different
// sets; only the last ones are whole sets.
func (b *bench) pod(i int) podAt {
	c, mixed := &b.cluster, b.size.sets-b.size.wholeSets()
	at := podAt{
		set: c.sets[i%mixed], ordinal: i / mixed, node: c.nodes[i%len(c.nodes)],
		ip: fmt.Sprintf("10.%d.%d.%d", i%len(c.nodes), i/len(c.nodes)/250, 2+i/len(c.nodes)%250),
	}
	if rest := i - b.size.spread(); rest >= 0 {
		at.set, at.ordinal = c.sets[mixed+rest/b.size.replicas], rest%b.size.replicas
	}
	return at
}

// object is the pod as its StatefulSet would make it: of a usual size, asking to keep
// its address.
func (p podAt) object() *corev1.Pod {
	pod := testenv.APod(fmt.Sprintf("%s-%d", p.set.Name, p.ordinal)).In(p.set.Namespace).OwnedBy(p.set).Pod
	pod.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
	pod.Labels = map[string]string{"app": p.set.Name, appsv1.StatefulSetPodNameLabel: pod.Name, appsv1.ControllerRevisionHashLabelKey: p.set.Name + "-1"}
	bed.Furnish(&pod.Spec)
	return pod
}

// build makes nodes, namespaces and StatefulSets; the controller generates the
// PersistentPodStates.
func (b *bench) build(ctx context.Context) error {
	for i := range b.size.nodes {
		if err := b.addNode(ctx, i); err != nil {
			return fmt.Errorf("make nodes: %w", err)
		}
	}
	for i := range b.size.sets {
		if err := b.addSet(ctx, i); err != nil {
			return fmt.Errorf("make StatefulSets: %w", err)
		}
	}
	return poll(ctx, func(ctx context.Context) error {
		var states appsv1beta1.PersistentPodStateList
		if err := b.Client.List(ctx, &states); err != nil {
			return err
		}
		if len(states.Items) < b.size.sets {
			return fmt.Errorf("%d of %d PersistentPodStates are there", len(states.Items), b.size.sets)
		}
		return nil
	})
}

func (b *bench) addNode(ctx context.Context, i int) error {
	node := testenv.ANode(fmt.Sprintf("node-%d", i)).Labelled(corev1.LabelTopologyZone, fmt.Sprintf("zone-%d", i%3)).Node
	node.Spec.PodCIDRs = []string{fmt.Sprintf("10.%d.0.0/16", i)}
	node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
	status := node.Status.DeepCopy()
	if err := b.Client.Create(ctx, node); err != nil {
		return err
	}
	node.Spec.Taints = nil // the API server gives every new node one
	if err := b.Client.Update(ctx, node); err != nil {
		return err
	}
	node.Status = *status
	b.cluster.nodes = append(b.cluster.nodes, node.Name)
	return b.Client.Status().Update(ctx, node)
}

// addSet makes a StatefulSet, and its namespace where it is the first in it.
func (b *bench) addSet(ctx context.Context, i int) error {
	ns := &corev1.Namespace{}
	ns.Name = fmt.Sprintf("tenant-%d", i/perNamespace)
	if i%perNamespace == 0 {
		if err := b.Client.Create(ctx, ns); err != nil {
			return err
		}
	}
	set := testenv.AStatefulSet(fmt.Sprintf("app-%d", i), int32(b.size.replicas)).In(ns.Name).StatefulSet
	set.Annotations = map[string]string{appsv1beta1.AnnotationAutoGenerate: "true", appsv1beta1.AnnotationPreferredTopology: corev1.LabelHostname}
	set.Spec.Template.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
	if err := b.Client.Create(ctx, set); err != nil {
		return err
	}
	set.Status.Replicas = int32(b.size.replicas) // of which none waits
	b.cluster.sets = append(b.cluster.sets, set)
	return b.Client.Status().Update(ctx, set)
}

// remove deletes a pod at once, as a kubelet does in the end.
func (b *bench) remove(ctx context.Context, pod *corev1.Pod) error {
	return client.IgnoreNotFound(b.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
}
