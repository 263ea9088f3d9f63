package pin

import (
	"context"
	"errors"
	"time"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/pkg/workload"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// gather collects what pin.Record decides from.
func (r *Recorder) gather(ctx context.Context, state *appsv1beta1.PersistentPodState) (pin.RecordInput, error) {
	in := pin.RecordInput{State: state, Retain: r.retain, Now: r.Clock.Now(), Nodes: map[string]*corev1.Node{}, Taken: map[string]string{}}
	target := pin.TargetOf(state)
	states, err := cluster.StatesOf(ctx, r.Client, state.Namespace, target)
	if err != nil {
		return in, err
	}
	if first := pin.Choose(states); first != nil && first.Name != state.Name {
		in.Older = first.Name
	}
	if in.Kinds = r.Workloads.Kinds(); !in.Kinds.Contains(target) {
		return in, r.Workloads.Ready(nil)
	}
	if in.Workload, in.Unread, err = r.Workloads.Read(ctx, state.Namespace, target); err != nil {
		return in, err
	}
	return in, r.addPods(ctx, &in, target)
}

// addPods adds a target's pods, and what counts of the rest of the cluster for them.
func (r *Recorder) addPods(ctx context.Context, in *pin.RecordInput, target workload.Target) error {
	pods, err := cluster.PodsOf(ctx, r.Client, in.State.Namespace, target)
	if err != nil {
		return err
	}
	in.Pods = pods
	for i := range in.Pods {
		pod := &in.Pods[i]
		recorded := pin.Remembered(in.State.Status.PodStates[pod.Name], pod)
		err := errors.Join(r.addNode(ctx, in.Nodes, pod.Spec.NodeName), r.addNode(ctx, in.Nodes, recorded.NodeName))
		if pin.Loses(recorded, pod) && err == nil {
			in.Taken[pod.Name], err = takenBy(ctx, r.Client, pod, recorded.IPs)
		}
		if pin.Waits(pod) && in.Cluster == nil && err == nil {
			in.Cluster, err = cluster.Nodes(ctx, r.Client)
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
	node, err := cluster.Node(ctx, r.Client, name)
	if node != nil {
		nodes[name] = node
	}
	return err
}

func (r *Recorder) retain(pod *corev1.Pod) time.Duration {
	wish, _ := reservation.ParseRetentionRequest(pod.Annotations, r.MaxReservation) // the webhook has warned
	return wish.Retain
}
