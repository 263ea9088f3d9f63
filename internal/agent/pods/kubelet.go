package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// DefaultKubeletSocket is where the kubelet serves its PodsAPI, unless its root directory is another one.
const DefaultKubeletSocket = "/var/lib/kubelet/pods-api/pods-api.sock"

// retryPeriod is the time between two tries to watch pods.
const retryPeriod = 2 * time.Second

// configSource is the annotation in which the kubelet says where it has a pod from.
const configSource = "kubernetes.io/config.source"

// Kubelet watches the pods of the kubelet of this node.
type Kubelet struct {
	socket string
	clock  clock.WithTicker
	log    logr.Logger

	mu     sync.Mutex
	pods   map[types.UID]corev1.Pod // as of the last complete list, with later changes; nil before
	failed error                    // why the watch is broken; nil while it works
}

// NewKubelet returns a source that has not connected yet.
func NewKubelet(socket string, c clock.WithTicker, log logr.Logger) *Kubelet {
	return &Kubelet{socket: socket, clock: c, log: log}
}

// Run watches pods until ctx ends. While the kubelet does not answer, the last known pods stay.
func (k *Kubelet) Run(ctx context.Context) error {
	conn, err := dial(k.socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the agent ends
	client := podsv1alpha1.NewPodsClient(conn)
	tick := k.clock.NewTicker(retryPeriod)
	defer tick.Stop()
	for {
		err := k.watch(ctx, client)
		if ctx.Err() != nil {
			return nil
		}
		k.fail(err)
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
	return plan.PodList{Items: slices.Collect(maps.Values(k.pods))}, true, nil
}

// fail remembers why the watch is broken, and logs the first error of a row.
func (k *Kubelet) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed == nil {
		k.log.Error(err, "The kubelet does not show its pods, trying again", "socket", k.socket)
	}
	k.failed = err
}

// watch reads one stream of events until it breaks. The pods of an earlier stream stay until the new
// list is complete.
func (k *Kubelet) watch(ctx context.Context, client podsv1alpha1.PodsClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		return fmt.Errorf("watch pods of the kubelet: %w", err)
	}
	s := snapshot{pods: map[types.UID]corev1.Pod{}}
	for {
		event, err := stream.Recv()
		if err == nil {
			err = s.add(event)
		}
		if err != nil {
			return fmt.Errorf("watch pods of the kubelet: %w", err)
		}
		if s.complete() {
			k.publish(maps.Clone(s.pods))
		}
	}
}

func (k *Kubelet) publish(pods map[types.UID]corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods, k.failed = pods, nil
}

// snapshot collects the pods of one stream of events.
type snapshot struct {
	pods   map[types.UID]corev1.Pod
	listed bool // all pods that the kubelet had at the start of the stream are there
	// fromAPI is true after a pod from the API server. A kubelet that has restarted first knows
	// static pods only, and would show the others as gone.
	fromAPI bool
}

func (s *snapshot) complete() bool { return s.listed && s.fromAPI }

var errNoUID = errors.New("pod without a UID")

// add applies one event.
func (s *snapshot) add(event *podsv1alpha1.WatchPodsEvent) error {
	if event.GetType() == podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE {
		s.listed = true
		return nil
	}
	var pod corev1.Pod
	if err := pod.Unmarshal(event.GetPod()); err != nil {
		return fmt.Errorf("decode pod: %w", err)
	}
	switch event.GetType() {
	case podsv1alpha1.EventType_ADDED, podsv1alpha1.EventType_MODIFIED:
		if pod.UID == "" {
			return errNoUID
		}
		s.fromAPI = s.fromAPI || pod.Annotations[configSource] == "api"
		s.pods[pod.UID] = plan.Strip(&pod)
	case podsv1alpha1.EventType_DELETED:
		delete(s.pods, pod.UID)
	default: // an event of a later version
	}
	return nil
}
