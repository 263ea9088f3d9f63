package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// gather collects what pin.Record decides from.
func (r *Recorder) gather(ctx context.Context, state *appsv1beta1.PersistentPodState) (pin.RecordInput, error) {
	in := pin.RecordInput{State: state, Retain: r.retain, Now: r.Clock.Now(), Nodes: map[string]*corev1.Node{}, Taken: map[string]string{}}
	target := pin.TargetOf(state)
	states, err := StatesOf(ctx, r.Client, state.Namespace, target)
	if err != nil {
		return in, err
	}
	if first := pin.Choose(states); first != nil && first.Name != state.Name {
		in.Older = first.Name
	}
	if in.Kinds = r.Workloads.Kinds(); !in.Kinds.Hold(target) {
		return in, r.Workloads.Ready(nil)
	}
	if in.Workload, in.Unread, err = r.Workloads.Read(ctx, state.Namespace, target); err != nil {
		return in, err
	}
	return in, r.addPods(ctx, &in, target)
}

// addPods adds a target's pods, and what counts of the rest of the cluster for them.
func (r *Recorder) addPods(ctx context.Context, in *pin.RecordInput, target pin.Target) error {
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.InNamespace(in.State.Namespace),
		client.MatchingFields{IndexTarget: target.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list pods of %s: %w", target, err)
	}
	in.Pods = pods.Items
	for i := range in.Pods {
		pod := &in.Pods[i]
		recorded := pin.Remembered(in.State.Status.PodStates[pod.Name], pod)
		err := errors.Join(r.addNode(ctx, in.Nodes, pod.Spec.NodeName), r.addNode(ctx, in.Nodes, recorded.NodeName))
		if pin.Loses(recorded, pod) && err == nil {
			in.Taken[pod.Name], err = TakenBy(ctx, r.Client, pod, recorded.IPs)
		}
		if pin.Waits(pod) && in.Cluster == nil && err == nil {
			in.Cluster, err = Nodes(ctx, r.Client)
		}
		if err != nil {
			return err
		}
	}
	for _, recorded := range in.State.Status.PodStates {
		if pin.Incomplete(in.State, recorded) {
			if err := r.addNode(ctx, in.Nodes, recorded.NodeName); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Recorder) addNode(ctx context.Context, nodes map[string]*corev1.Node, name string) error {
	if _, known := nodes[name]; known || name == "" {
		return nil
	}
	node, err := GetNode(ctx, r.Client, name)
	if node != nil {
		nodes[name] = node
	}
	return err
}

// GetNode returns a node, or nil when there is none of that name. It is the cache's own
// object: callers must not change it.
func GetNode(ctx context.Context, r client.Reader, name string) (*corev1.Node, error) {
	var node corev1.Node
	err := r.Get(ctx, client.ObjectKey{Name: name}, &node, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // no node is an answer that every caller has a use for
	case err != nil:
		return nil, fmt.Errorf("get node %s: %w", name, err)
	}
	return &node, nil
}

func (r *Recorder) retain(pod *corev1.Pod) time.Duration {
	wish, _ := reservation.ParseRetentionRequest(pod.Annotations, r.MaxReservation) // the webhook has warned
	return wish.Retain
}
