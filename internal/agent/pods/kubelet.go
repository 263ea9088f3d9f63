package pods

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// DefaultKubeletSocket is where the kubelet serves its PodsAPI, unless its root directory is another one.
const DefaultKubeletSocket = "/var/lib/kubelet/pods-api/pods-api.sock"

// listPeriod is the time between two lists. The kubelet's watch sends no event for a change of an
// annotation (Kubernetes 1.36): it follows the status of pods.
const listPeriod = 5 * time.Second

// configSource is the annotation in which the kubelet says where it has a pod from.
const configSource = "kubernetes.io/config.source"

// Kubelet lists the pods of the kubelet of this node.
type Kubelet struct {
	socket string
	clock  clock.WithTicker
	log    logr.Logger

	mu     sync.Mutex
	pods   []corev1.Pod // as of the last complete list; nil before
	failed error        // why the last list failed; nil after a list
}

// NewKubelet returns a source that has not connected yet.
func NewKubelet(socket string, c clock.WithTicker, log logr.Logger) *Kubelet {
	return &Kubelet{socket: socket, clock: c, log: log}
}

// Run lists pods until ctx ends. While the kubelet does not answer, the last known pods stay.
func (k *Kubelet) Run(ctx context.Context) error {
	conn, err := dial(k.socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the agent ends
	client := podsv1alpha1.NewPodsClient(conn)
	tick := k.clock.NewTicker(listPeriod)
	defer tick.Stop()
	for {
		pods, complete, err := list(ctx, client)
		if ctx.Err() != nil {
			return nil
		}
		k.publish(pods, complete, err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
	}
}

// Pods returns the pods; false before the first complete list.
func (k *Kubelet) Pods(context.Context) (list plan.PodList, known bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pods == nil {
		return list, false, k.failed
	}
	return plan.PodList{Items: k.pods}, true, nil
}

// publish stores a complete list, or why there is none. The first error of a row is logged.
func (k *Kubelet) publish(pods []corev1.Pod, complete bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && k.failed == nil {
		k.log.Error(err, "The kubelet does not show its pods, trying again", "socket", k.socket)
	}
	k.failed = err
	if err == nil && complete {
		k.pods = pods
	}
}

// list returns the pods of the kubelet. The list is complete when one of them is from the API server:
// the agent itself is such a pod. A kubelet that has restarted first knows static pods only, and would
// show the others as gone.
func list(ctx context.Context, client podsv1alpha1.PodsClient) (pods []corev1.Pod, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	answer, err := client.ListPods(ctx, &podsv1alpha1.ListPodsRequest{})
	if err != nil {
		return nil, false, fmt.Errorf("list pods of the kubelet: %w", err)
	}
	for _, data := range answer.GetPods() {
		var pod metav1.PartialObjectMetadata // the environment is not even decoded
		if err := pod.Unmarshal(data); err != nil {
			return nil, false, fmt.Errorf("decode pod of the kubelet: %w", err)
		}
		complete = complete || pod.Annotations[configSource] == "api"
		pods = append(pods, plan.Strip(&corev1.Pod{ObjectMeta: pod.ObjectMeta}))
	}
	return pods, complete, nil
}
