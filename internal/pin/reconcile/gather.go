package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// gatherer collects the facts from which pin.Record decides.
type gatherer struct {
	client         client.Client
	workloads      *workloads.Reader
	maxReservation time.Duration
	clock          clock.PassiveClock
	leases         *LeaseMonitor
}

func (g gatherer) gather(ctx context.Context, state *appsv1beta1.PersistentPodState) (pin.RecordInput, error) {
	in := pin.RecordInput{State: state, Retain: g.retain, Now: g.clock.Now(), Nodes: map[string]*corev1.Node{}, Renewed: map[string]time.Time{}, Taken: map[string]types.NamespacedName{}, Namesakes: map[string]*corev1.Pod{}, StateSince: map[string]time.Time{}}
	target := pin.TargetOf(state)
	states, err := cluster.StatesOf(ctx, g.client, state.Namespace, target)
	if err != nil {
		return in, err
	}
	if first := pin.Choose(states); first != nil && first.Name != state.Name {
		in.Older = first.Name
	}
	if in.Kinds = g.workloads.Kinds(); !in.Kinds.Contains(target) {
		return in, g.workloads.Ready(nil)
	}
	if in.Workload, in.Unread, err = g.workloads.Read(ctx, state.Namespace, target); err != nil {
		return in, err
	}
	return in, g.addPods(ctx, &in, target)
}

// addPods adds a target's pods, and the facts about the cluster that matter for them.
func (g gatherer) addPods(ctx context.Context, in *pin.RecordInput, target workload.Target) (err error) {
	if in.Pods, err = cluster.PodsOf(ctx, g.client, in.State.Namespace, target); err != nil {
		return err
	}
	for i := range in.Pods {
		pod := &in.Pods[i]
		recorded := pin.Remembered(in.State.Status.PodStates[pod.Name], pod)
		err := errors.Join(g.addNode(ctx, in.Nodes, pod.Spec.NodeName), g.addNode(ctx, in.Nodes, recorded.NodeName))
		if pin.Loses(recorded, pod) && err == nil {
			err = g.addLoss(ctx, in, pod, recorded.IPs)
		}
		stranded := pin.Stranded(pod, in.Nodes[pod.Spec.NodeName])
		if (pin.Waits(pod) || stranded) && in.Cluster == nil && err == nil {
			in.Cluster, err = cluster.Nodes(ctx, g.client)
		}
		if stranded && pin.Pinned(pod) && err == nil {
			err = g.leases.addRenewal(ctx, pod.Spec.NodeName, in.Renewed)
		}
		if err != nil {
			return err
		}
	}
	if err := g.addRecorded(ctx, in); err != nil {
		return err
	}
	return g.addHomeward(ctx, in)
}

// addLoss adds why a pod may be without the addresses that it had.
func (g gatherer) addLoss(ctx context.Context, in *pin.RecordInput, pod *corev1.Pod, ips string) error {
	others, err := podsWith(ctx, g.client, pod, ips)
	if len(others) > 0 {
		in.Taken[pod.Name] = client.ObjectKeyFromObject(others[0])
	}
	pools, poolErr := cluster.PoolsOf(ctx, g.client, pod.Spec.NodeName)
	for _, pool := range pools {
		if since := pool.Status.StateSince; since != nil {
			in.StateSince[pod.Spec.NodeName] = since.Time
		}
	}
	return errors.Join(err, poolErr)
}

// addRecorded adds what the records need of the cluster.
func (g gatherer) addRecorded(ctx context.Context, in *pin.RecordInput) error {
	existing := map[string]bool{}
	for i := range in.Pods {
		existing[in.Pods[i].Name] = true
	}
	for name, recorded := range in.State.Status.PodStates {
		if !existing[name] && recorded.RetainSeconds > 0 {
			if err := g.addNamesake(ctx, in, name, recorded); err != nil {
				return err
			}
		}
		if recorded.Home != nil {
			if err := g.addNode(ctx, in.Nodes, recorded.Home.NodeName); err != nil {
				return err
			}
		}
		if pin.Incomplete(in.State, recorded) {
			if err := g.addNode(ctx, in.Nodes, recorded.NodeName); err != nil {
				return err
			}
		}
	}
	return nil
}

// addHomeward adds the first pod that may return and whose home has its addresses and room for it.
func (g gatherer) addHomeward(ctx context.Context, in *pin.RecordInput) error {
	for _, pod := range pin.ReturnCandidates(*in) {
		home := in.State.Status.PodStates[pod.Name].Home
		held, err := cluster.ReservationsOf(ctx, g.client, client.ObjectKeyFromObject(pod))
		if err != nil {
			return err
		}
		node := in.Nodes[home.NodeName]
		if node == nil || !pin.ReservedAtHome(home, pin.Holders(held, in.Nodes, in.Now), in.Now) {
			continue
		}
		others, err := cluster.PodsOn(ctx, g.client, node.Name)
		if err != nil {
			return err
		}
		if fit.Shortage(node, pod, others) == "" {
			in.Homeward = pod.Name
			return nil
		}
	}
	return nil
}

// addNamesake adds a pod that is not of the workload and has the addresses of a recorded pod of
// its name. While it exists, the workload has no pod of that name.
func (g gatherer) addNamesake(ctx context.Context, in *pin.RecordInput, name string, recorded appsv1beta1.PodState) error {
	var pod corev1.Pod
	key := client.ObjectKey{Namespace: in.State.Namespace, Name: name}
	switch err := g.client.Get(ctx, key, &pod, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get pod %s: %w", key, err)
	}
	if owner, owned := workload.OwnerOf(&pod); owned && owner == pin.TargetOf(in.State) || !pin.NamesakeHolds(recorded, &pod) {
		return nil
	}
	in.Namesakes[name] = &pod
	return nil
}

func (g gatherer) addNode(ctx context.Context, nodes map[string]*corev1.Node, name string) error {
	if _, known := nodes[name]; known || name == "" {
		return nil
	}
	node, err := cluster.Node(ctx, g.client, name)
	if node != nil {
		nodes[name] = node
	}
	return err
}

// retain returns for how long a pod asks to keep its addresses. Those of a pod with hostNetwork are its node's.
func (g gatherer) retain(pod *corev1.Pod) time.Duration {
	if pod.Spec.HostNetwork {
		return 0
	}
	request, _ := reservation.ParseRetentionRequest(pod.Annotations, g.maxReservation) // the webhook has warned
	return request.Retain
}
