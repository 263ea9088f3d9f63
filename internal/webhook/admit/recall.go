package admit

import (
	"context"
	"fmt"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/pkg/workload"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// recall sets the state with the record that the pod should be planned from. Most often
// that is the state as it is in the cache. Where that says nothing, or another node than
// it says shows a later life of the pod, or the pod may have been let go a moment ago, the
// cache may be behind the API server; and where that says no more, the record was lost
// with its StatefulSet or never written, and the node that holds the addresses is where
// the pod was.
func (w *PodCreate) recall(ctx context.Context, in *pin.Input, cached *appsv1beta1.PersistentPodState) error {
	var holders []pin.Holder
	var nodes map[string]*corev1.Node
	var err error
	if in.Retains {
		if holders, nodes, err = w.holders(ctx, in.Pod); err != nil {
			return err
		}
	}
	name := in.Pod.Name
	switch in.State = cached; {
	case cached == nil:
		if in.State, err = w.unseen(ctx, in.Pod); in.State == nil && err == nil && len(holders) > 0 {
			in.State, err = w.listed(ctx, in.Pod) // the pod was here before, and may be recorded
		}
	case pin.RecordedNode(cached, name) == "" || pin.Doubt(cached, name, holders) != "" || pin.Releases(cached, name):
		in.State, err = w.fresh(ctx, cached)
	}
	if in.State == nil || err != nil {
		return err
	}
	if node := nodes[pin.Doubt(in.State, name, holders)]; node != nil {
		in.State = pin.Recall(in.State, name, node, holders)
		in.Recalled = pin.RecordedNode(in.State, name) == node.Name
	}
	in.Holds = pin.Holds(holders, pin.RecordedNode(in.State, name))
	return nil
}

// holders gathers which nodes hold a pod's addresses.
func (w *PodCreate) holders(ctx context.Context, pod *corev1.Pod) ([]pin.Holder, map[string]*corev1.Node, error) {
	held, err := cluster.ReservationsOf(ctx, w.Cached, client.ObjectKeyFromObject(pod))
	if err != nil {
		return nil, nil, err
	}
	nodes := map[string]*corev1.Node{}
	for i := range held {
		name := held[i].Status.Node
		if nodes[name], err = cluster.Node(ctx, w.Cached, name); err != nil {
			return nil, nil, err
		}
	}
	return pin.Holders(held, nodes, w.Clock.Now()), nodes, nil
}

// fresh reads a state once more, from the API server: the other replica may have written
// it a moment ago.
func (w *PodCreate) fresh(ctx context.Context, s *appsv1beta1.PersistentPodState) (*appsv1beta1.PersistentPodState, error) {
	var live appsv1beta1.PersistentPodState
	switch err := w.Live.Get(ctx, client.ObjectKeyFromObject(s), &live); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // deleted in between
	case err != nil:
		return nil, fmt.Errorf("get PersistentPodState %s: %w", s.Name, err)
	}
	return &live, nil
}

// unseen is the state that the pod's owner asks for by annotation, where the cache has
// none: as it was generated a moment ago, or else as it will be.
func (w *PodCreate) unseen(ctx context.Context, pod *corev1.Pod) (*appsv1beta1.PersistentPodState, error) {
	asked, err := w.asked(ctx, pod)
	if asked == nil || err != nil {
		return nil, err
	}
	live, err := w.fresh(ctx, asked)
	if live == nil || pin.TargetOf(live) != pin.TargetOf(asked) {
		return asked, err
	}
	return live, err
}

// listed is the state that counts for the pod's owner, whoever made it and of whatever
// kind that owner is, as the API server has it.
func (w *PodCreate) listed(ctx context.Context, pod *corev1.Pod) (*appsv1beta1.PersistentPodState, error) {
	owner, _ := workload.OwnerOf(pod)
	states, err := cluster.LiveStatesOf(ctx, w.Live, w.Cached, pod.Namespace, owner)
	return pin.Choose(states), err
}

// asked is the PersistentPodState that the pod's owner asks for by annotation. The first
// pods of a workload are faster than its generation.
func (w *PodCreate) asked(ctx context.Context, pod *corev1.Pod) (*appsv1beta1.PersistentPodState, error) {
	owner, kind, err := w.Workloads.Owner(ctx, pod)
	if owner == nil || err != nil { // nobody asks for a pin
		return nil, err
	}
	return pin.Generate(pin.GenerateInput{Workload: owner, Kind: kind}).Object, nil
}
