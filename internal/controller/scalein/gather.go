package scalein

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/cluster"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/scalein"
	"github.com/limpet-io/limpet/pkg/spread"
	"github.com/limpet-io/limpet/pkg/workload"
)

var deployments = appsv1.SchemeGroupVersion.WithKind("Deployment")

// situation is what is known about one ReplicaSet.
type situation struct {
	// inputs are the pods of each spread, and the pods of none.
	inputs   []scalein.Input
	balanced bool
	spread   bool
	pods     map[string]*corev1.Pod // by name
	// wants is how many pods the ReplicaSet wants, and bound how many have a node.
	wants, bound int
	// workload is where users write annotations and read events: the Deployment, or the
	// ReplicaSet itself.
	workload client.Object
}

// gather collects the facts about a ReplicaSet; nil for one whose pods need nothing, because the
// garbage collector will remove them.
func (r *Reconciler) gather(ctx context.Context, set *appsv1.ReplicaSet) (*situation, error) {
	s := &situation{pods: map[string]*corev1.Pod{}, wants: int(ptr.Deref(set.Spec.Replicas, 1))}
	var err error
	if s.workload, err = r.workloadOf(ctx, set); s.workload == nil || err != nil {
		return nil, err
	}
	s.balanced = balanced(s.workload)
	found, err := r.spreadsOf(ctx, set)
	if err != nil {
		return nil, err
	}
	s.spread = len(found.objects) > 0
	size, err := r.size(ctx, set, s.workload)
	if err == nil {
		err = found.read(size)
	}
	if err != nil {
		return nil, err
	}
	return s, r.addPods(ctx, set, s, &found)
}

// addPods adds the active pods of a ReplicaSet, those of each spread apart.
func (r *Reconciler) addPods(ctx context.Context, set *appsv1.ReplicaSet, s *situation, found *spreads) error {
	pods, err := cluster.PodsOwnedBy(ctx, r.Client, set.Namespace, set.UID)
	if err != nil {
		return err
	}
	old, err := r.isOld(ctx, set, s.workload)
	if err != nil {
		return err
	}
	keys, bySpread := keysOf(set), map[string]*scalein.Input{}
	for i := range pods {
		if !workload.Alive(&pods[i]) {
			continue
		}
		of := found.of(&pods[i])
		pod, err := r.pod(ctx, set, &pods[i], keys, of)
		if err != nil {
			return err
		}
		name, subsets := "", []scalein.Subset(nil)
		if of != nil {
			name, subsets = of.Name, subsetsOf(*of)
		}
		if bySpread[name] == nil {
			bySpread[name] = &scalein.Input{Subsets: subsets, Old: old, Balanced: s.balanced}
		}
		bySpread[name].Pods = append(bySpread[name].Pods, pod)
		s.pods[pod.Name] = &pods[i]
		if pod.Bound {
			s.bound++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(bySpread)) {
		s.inputs = append(s.inputs, *bySpread[name])
	}
	return nil
}

// balanced tells whether a workload asks for the balanced order.
func balanced(o client.Object) bool {
	return o.GetAnnotations()[appsv1beta1.AnnotationScaleIn] == appsv1beta1.ScaleInBalanced
}

// workloadOf returns the Deployment of a ReplicaSet, or the ReplicaSet if no Deployment controls
// it; nil for a workload that is being deleted. A Deployment's annotations are copied to its
// ReplicaSets, and are not removed there.
func (r *Reconciler) workloadOf(ctx context.Context, set *appsv1.ReplicaSet) (client.Object, error) {
	if set.DeletionTimestamp != nil {
		return nil, nil
	}
	owner, owned := workload.ControllerOf(set)
	if !owned || owner.GroupKind() != deployments.GroupKind() {
		return set, nil
	}
	var d appsv1.Deployment
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: owner.Name}, &d, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && (d.UID != owner.UID || d.DeletionTimestamp != nil):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get Deployment %s/%s: %w", set.Namespace, owner.Name, err)
	}
	return &d, nil
}

// isOld tells whether the Deployment of a ReplicaSet has a newer one.
func (r *Reconciler) isOld(ctx context.Context, set *appsv1.ReplicaSet, of client.Object) (bool, error) {
	if of.GetUID() == set.UID {
		return false, nil
	}
	sets, err := cluster.ReplicaSetsOf(ctx, r.Client, set.Namespace, of.GetUID())
	if err != nil {
		return false, err
	}
	for i := range sets {
		if revision(&sets[i]) > revision(set) {
			return true, nil
		}
	}
	return false, nil
}

func revision(set *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(set.Annotations[annotationRevision], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// topology are the labels of nodes whose values are domains.
type topology struct{ domain, host string }

// keysOf returns the keys over which the pods of a ReplicaSet are spread. The first one that is
// not the host makes the domains. Within a domain, hosts take turns, or the domains of the second
// key.
func keysOf(set *appsv1.ReplicaSet) topology {
	t := topology{host: corev1.LabelHostname}
	for _, c := range set.Spec.Template.Spec.TopologySpreadConstraints {
		switch {
		case t.domain == "" && c.TopologyKey != corev1.LabelHostname:
			t.domain = c.TopologyKey
		case t.domain != "":
			t.host = c.TopologyKey
		}
	}
	if t.domain == "" {
		t.domain = corev1.LabelHostname
	}
	return t
}

// pod describes one pod. A cost that was just written counts although the cache does not show it.
func (r *Reconciler) pod(ctx context.Context, set *appsv1.ReplicaSet, of *corev1.Pod, keys topology, in *spread.Spread) (scalein.Pod, error) {
	p := scalein.Pod{
		Name: of.Name, Bound: of.Spec.NodeName != "", Running: of.Status.Phase == corev1.PodRunning, Ready: workload.Ready(of),
		Created: of.CreationTimestamp.Time, Since: readySince(of),
		Cost: of.Annotations[annotationCost], Mark: of.Annotations[appsv1beta1.AnnotationDeletionCost],
	}
	if cost, unseen := r.memory.unseen(set.UID, of, r.Clock.Now()); unseen {
		p.Cost, p.Mark = cost, cost
	}
	node, err := r.node(ctx, of)
	if node != nil {
		p.Domain, p.Host = node.Labels[keys.domain], node.Labels[keys.host]
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
