package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
)

// promiseTime is how long a nomination counts before the cache shows it.
const promiseTime = 10 * time.Second

// promises are the nominations of this replica that its cache may not show yet. Without
// them, pods that are nominated at the same time would all count on the same room.
type promises struct {
	mu     sync.Mutex
	byNode map[string]map[client.ObjectKey]promise
}

type promise struct {
	pod types.UID
	at  time.Time
}

// plan decides about a pod whose home is known, and promises it the room.
func (p *promises) plan(ctx context.Context, r client.Reader, in pin.GateInput) (pin.GateDecision, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	promised, err := p.unseen(ctx, r, in)
	if err != nil {
		return pin.GateDecision{}, err
	}
	pods, err := cluster.PodsOn(ctx, r, in.Node.Name) // after the promises: the cache may show one by now
	if err != nil {
		return pin.GateDecision{}, err
	}
	for i := range pods {
		if key := client.ObjectKeyFromObject(&pods[i]); key != client.ObjectKeyFromObject(in.Pod) {
			delete(promised, key)
			in.Others = append(in.Others, pods[i])
		}
	}
	in.Others = slices.AppendSeq(in.Others, maps.Values(promised))
	decision := pin.PlanGate(in)
	if decision.Nominate != "" {
		p.add(in)
	}
	return decision, nil
}

// unseen returns the other pods that were promised room on a node and that the cache does
// not show there yet. It forgets the promises that are over.
func (p *promises) unseen(ctx context.Context, r client.Reader, in pin.GateInput) (map[client.ObjectKey]corev1.Pod, error) {
	pods := map[client.ObjectKey]corev1.Pod{}
	for key, made := range p.byNode[in.Node.Name] {
		var pod corev1.Pod
		err := r.Get(ctx, key, &pod, client.UnsafeDisableDeepCopy)
		switch {
		case apierrors.IsNotFound(err) || in.Now.Sub(made.at) >= promiseTime || err == nil && kept(made, &pod):
			delete(p.byNode[in.Node.Name], key)
		case err != nil:
			return nil, fmt.Errorf("get pod %s: %w", key, err)
		case key != client.ObjectKeyFromObject(in.Pod):
			pods[key] = pod
		}
	}
	if len(p.byNode[in.Node.Name]) == 0 {
		delete(p.byNode, in.Node.Name)
	}
	return pods, nil
}

// kept reports whether a pod shows what became of a promise: the pod has a node or a
// nomination, or another pod has its name.
func kept(made promise, pod *corev1.Pod) bool {
	return pod.UID != made.pod || pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != ""
}

func (p *promises) add(in pin.GateInput) {
	if p.byNode == nil {
		p.byNode = map[string]map[client.ObjectKey]promise{}
	}
	if p.byNode[in.Node.Name] == nil {
		p.byNode[in.Node.Name] = map[client.ObjectKey]promise{}
	}
	p.byNode[in.Node.Name][client.ObjectKeyFromObject(in.Pod)] = promise{in.Pod.UID, in.Now}
}
