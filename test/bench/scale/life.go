package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/test/bench/bed"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// recordedPods are the numbers of the pods that belong to StatefulSets.
func (f fleet) recordedPods() (all []int) {
	for i := range f.pods {
		if f.isSet(i / perWorkload) {
			all = append(all, i)
		}
	}
	return all
}

// life is the times of a rebuild: from its creation until its gate is open, and from Ready until
// it is recorded.
type life struct{ opened, recorded time.Duration }

// player plays StatefulSet controller, scheduler and kubelets. The pods are created as the webhook
// would make them.
type player struct {
	b    *bench
	f    fleet
	pods []int // whose turn has not come
}

// takeOneOfEach takes the turns of at most n pods, each of another workload.
func (p *player) takeOneOfEach(n int) *player {
	taken := &player{b: p.b, f: p.f}
	var rest []int
	last := -1
	for _, i := range p.pods {
		if w := i / perWorkload; w != last && len(taken.pods) < n {
			taken.pods, last = append(taken.pods, i), w
			continue
		}
		rest = append(rest, i)
	}
	p.pods = rest
	return taken
}

// rebuilds rebuilds pods at a rate, and returns how long they took.
func (p *player) rebuilds(ctx context.Context, n, rate int) (opened, recorded measure.Sample, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	turn := p.pods[:min(n, len(p.pods))]
	p.pods = p.pods[len(turn):]
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for _, i := range turn {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		wg.Go(func() {
			l, failed := p.rebuild(ctx, i)
			mu.Lock()
			defer mu.Unlock()
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("rebuild pod %d: %w", i, failed))
				return
			}
			opened, recorded = append(opened, l.opened), append(recorded, l.recorded)
		})
	}
	wg.Wait()
	return opened, recorded, err
}

// rebuild ends the i-th pod and plays its next life.
func (p *player) rebuild(ctx context.Context, i int) (l life, err error) {
	pod := p.f.pod(i).(*corev1.Pod)
	node, status := pod.Spec.NodeName, pod.Status
	if err := client.IgnoreNotFound(p.b.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))); err != nil {
		return l, err
	}
	pod.ObjectMeta = metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences,
	}
	pod.Annotations[pin.AnnotationNode] = node
	pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: pin.Gate}}
	if err := p.b.Client.Create(ctx, pod); err != nil {
		return l, err
	}
	begin := time.Now()
	if err := poll(ctx, longestWait, func(ctx context.Context) error { return p.open(ctx, pod) }); err != nil {
		return l, err
	}
	l.opened = time.Since(begin)
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := p.b.Client.SubResource("binding").Create(ctx, pod.DeepCopy(), binding); err != nil {
		return l, err
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return l, err
	}
	if err := p.b.Client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		return l, err
	}
	begin = time.Now()
	err = poll(ctx, longestWait, func(ctx context.Context) error { return p.recorded(ctx, pod) })
	l.recorded = time.Since(begin)
	return l, err
}

func (p *player) open(ctx context.Context, pod *corev1.Pod) error {
	var now corev1.Pod
	if err := p.b.Client.Get(ctx, client.ObjectKeyFromObject(pod), &now); err != nil {
		return err
	}
	if len(now.Spec.SchedulingGates) > 0 {
		return fmt.Errorf("pod %s has its gate: %w", pod.Name, bed.ErrNotReady)
	}
	return nil
}

func (p *player) recorded(ctx context.Context, pod *corev1.Pod) error {
	var state v1beta1.PersistentPodState
	key := client.ObjectKey{Namespace: pod.Namespace, Name: metav1.GetControllerOf(pod).Name}
	if err := p.b.Client.Get(ctx, key, &state); err != nil {
		return err
	}
	if state.Status.PodStates[pod.Name].UID != pod.UID {
		return fmt.Errorf("pod %s is not recorded: %w", pod.Name, bed.ErrNotReady)
	}
	return nil
}
