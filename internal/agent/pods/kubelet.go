package pods

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// DefaultKubeletSocket is where the kubelet serves its PodsAPI, unless its root directory is another one.
const DefaultKubeletSocket = "/var/lib/kubelet/pods-api/pods-api.sock"

// listPeriod is the time between two lists. The kubelet's watch sends no event for a change of an
// annotation (Kubernetes 1.36): it follows the status of pods.
const listPeriod = 5 * time.Second

// maxList is the longest list that is accepted. The buffers of the connection hold all of it, and the agent has 128 MiB.
const maxList = 64 << 20

// staleAfter is the age from which a list is reported. A restart of the kubelet takes less.
const staleAfter = time.Minute

// errStaticOnly says why a list is not complete.
var errStaticOnly = errors.New("the kubelet shows no pod of the API server")

// configSource is the annotation in which the kubelet says where it has a pod from.
const configSource = "kubernetes.io/config.source"

// Kubelet lists the pods of the kubelet of this node.
type Kubelet struct {
	socket string
	clock  clock.WithTicker
	log    logr.Logger

	mu     sync.Mutex
	pods   []corev1.Pod // as of the last complete list; nil before
	listed time.Time    // when they were listed
	failed error        // why the last list failed or was not complete
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
	tick := k.clock.NewTicker(listPeriod)
	defer tick.Stop()
	for {
		pods, complete, err := list(ctx, conn)
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

// Pods returns the pods; false before the first complete list. Old pods come with an error.
func (k *Kubelet) Pods(context.Context) (list plan.PodList, known bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pods == nil {
		return list, false, k.failed
	}
	if k.failed != nil && k.clock.Since(k.listed) > staleAfter {
		err = fmt.Errorf("the known pods are those of %s: %w", k.listed.UTC().Format(time.RFC3339), k.failed)
	}
	return plan.PodList{Items: k.pods}, true, err
}

// publish stores a complete list, or why there is none. The first error of a row is logged.
func (k *Kubelet) publish(pods []corev1.Pod, complete bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && (k.failed == nil || errors.Is(k.failed, errStaticOnly)) {
		k.log.Error(err, "The kubelet does not show its pods, trying again", "socket", k.socket)
	}
	switch {
	case err != nil:
		k.failed = err
	case !complete && k.pods != nil:
		k.failed = errStaticOnly
	case !complete:
		k.failed = nil // a kubelet that starts
	default:
		k.pods, k.listed, k.failed = pods, k.clock.Now(), nil
	}
}

// list returns the pods of the kubelet. The list is complete when one of them is from the API server:
// the agent itself is such a pod. A kubelet that has restarted first knows static pods only, and would
// show the others as gone.
func list(ctx context.Context, conn *grpc.ClientConn) (pods []corev1.Pod, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var all answer
	err = conn.Invoke(ctx, podsv1alpha1.Pods_ListPods_FullMethodName, &podsv1alpha1.ListPodsRequest{}, &all,
		grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxList))
	if err != nil {
		return nil, false, fmt.Errorf("list pods of the kubelet: %w", err)
	}
	return all.pods, all.fromAPI, nil
}
