package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/testenv"
)

// Users choose what a webhook reads. Many reads in one namespace are refused before others
// wait for them.
func TestManyLiveReadsInANamespaceDelayNoOther(t *testing.T) {
	const many, atOnce, waiting = 100, 4, 12
	busy, quiet := env.Namespace(t), env.Namespace(t)
	env.Create(t, testenv.APod("web-0").In(quiet).Pod)
	c, traffic := env.Observe(t)
	release := traffic.Hold(t, "/namespaces/"+busy+"/")
	live := cluster.NewLiveReader(c, cluster.LimitUnproven)
	answers := make(chan error, many)
	for i := range many {
		go func() {
			answers <- live.Get(t.Context(), client.ObjectKey{Namespace: busy, Name: fmt.Sprintf("web-%d", i)}, &corev1.Pod{})
		}()
	}
	for range many - atOnce - waiting {
		if err := <-answers; !errors.Is(err, fair.ErrCrowded) {
			t.Fatalf("error %v, want that too many reads wait", err)
		}
	}
	var pod corev1.Pod
	if err := live.Get(t.Context(), client.ObjectKey{Namespace: quiet, Name: "web-0"}, &pod); err != nil || pod.Name != "web-0" {
		t.Errorf("read in another namespace: %v, pod %q", err, pod.Name)
	}
	if err := live.List(t.Context(), &corev1.PodList{}, client.InNamespace(quiet)); err != nil {
		t.Errorf("list in another namespace: %v", err)
	}
	testenv.Eventually(t, func() error {
		if n := traffic.Count("/namespaces/" + busy + "/"); n != atOnce {
			return fmt.Errorf("%d requests are on their way, want %d", n, atOnce)
		}
		return nil
	})
	if err := live.List(t.Context(), &corev1.PodList{}, client.InNamespace(busy)); !errors.Is(err, fair.ErrCrowded) {
		t.Errorf("list in the busy namespace: %v, want that too many reads wait", err)
	}
	release()
	for range atOnce + waiting {
		if err := client.IgnoreNotFound(<-answers); err != nil {
			t.Error(err)
		}
	}
}

// The first pods of a workload are created at once, and each needs the same object. Other reads
// take all places meanwhile, so that none of these reads begins before the others join it.
func TestLiveReadsOfOneObjectThatWaitAreOne(t *testing.T) {
	const many, atOnce = 50, 8
	ns := env.Namespace(t)
	env.Create(t, testenv.APod("web-0").In(ns).With("k", "v").Pod)
	c, traffic := env.Observe(t)
	release := traffic.Hold(t, "/namespaces/"+ns+"/")
	live := cluster.NewLiveReader(c, cluster.LimitProven)
	metadata := func() *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		return o
	}
	var others sync.WaitGroup
	for i := range atOnce {
		others.Go(func() {
			_ = live.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: fmt.Sprintf("other-%d", i)}, metadata()) // not found
		})
	}
	testenv.Eventually(t, func() error {
		if n := traffic.Count(ns); n != atOnce {
			return fmt.Errorf("%d requests, want %d", n, atOnce)
		}
		return nil
	})
	answers := make(chan error, many)
	for range many {
		go func() {
			pod := metadata()
			err := live.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "web-0"}, pod)
			if err == nil && pod.Annotations["k"] != "v" {
				err = fmt.Errorf("pod %q without its annotation", pod.Name)
			}
			answers <- err
		}()
	}
	testenv.Eventually(t, func() error { return live.Waits(client.ObjectKey{Namespace: ns, Name: "web-0"}, many) })
	release()
	for range many {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	others.Wait()
	if n := traffic.Count(ns) - atOnce; n != 1 {
		t.Errorf("%d requests for one object, want one", n)
	}
}

// limited answers a number of reads, as a client of the controller does in a second, and then none.
type limited struct {
	client.Reader
	left *atomic.Int64
}

func (l limited) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if ctx.Err() == nil && l.left.Add(-1) < 0 {
		return errors.New("nothing is left of the rate")
	}
	return ctx.Err()
}

// A read for which no request waits is given up, in however many namespaces. It takes nothing
// of the client's rate, unless it began before its request went away.
func TestAbandonedReadsDelayNoOther(t *testing.T) {
	const many = 3000
	reader := limited{left: new(atomic.Int64)}
	reader.left.Store(many / 2)
	live, proven := cluster.NewLiveReader(reader, cluster.LimitUnproven), cluster.NewLiveReader(reader, cluster.LimitProven)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range many {
		_ = live.Get(gone, client.ObjectKey{Namespace: fmt.Sprint("ns-", i), Name: "forged"}, &corev1.Pod{}) // no request waits
	}
	if err := proven.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "game"}, &corev1.Pod{}); err != nil {
		t.Errorf("a read for an existing workload: %v", err)
	}
}

// A request may go away while others wait for the same read.
func TestASharedReadGoesOnWithoutItsFirstRequest(t *testing.T) {
	ns := env.Namespace(t)
	env.Create(t, testenv.APod("web-0").In(ns).Pod)
	c, traffic := env.Observe(t)
	release := traffic.Hold(t, "/namespaces/"+ns+"/")
	live := cluster.NewLiveReader(c, fair.Bounds{Each: 1, Waiting: 10, Requests: 10})
	read := func(ctx context.Context, name string) <-chan error {
		answer := make(chan error, 1)
		go func() { answer <- live.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &corev1.Pod{}) }()
		return answer
	}
	other := read(t.Context(), "other") // takes the only place
	testenv.Eventually(t, func() error {
		if traffic.Count(ns) != 1 {
			return errors.New("no request yet")
		}
		return nil
	})
	first, cancel := context.WithCancel(t.Context())
	one := read(first, "web-0")
	testenv.Eventually(t, func() error { return live.Waits(client.ObjectKey{Namespace: ns, Name: "web-0"}, 1) })
	two := read(t.Context(), "web-0")
	testenv.Eventually(t, func() error { return live.Waits(client.ObjectKey{Namespace: ns, Name: "web-0"}, 2) })
	cancel()
	if err := <-one; !errors.Is(err, context.Canceled) {
		t.Errorf("the request that went away: %v", err)
	}
	release()
	if err := errors.Join(client.IgnoreNotFound(<-other), <-two); err != nil {
		t.Errorf("the request that stayed: %v", err)
	}
}

// Clients can invent namespaces.
func TestLiveReadsOfAllNamespacesAreBounded(t *testing.T) {
	const total, many = 5, 20
	c, traffic := env.Observe(t)
	defer traffic.Hold(t, "/pods/web")()
	live := cluster.NewLiveReader(c, fair.Bounds{Each: 4, Waiting: 12, Requests: total})
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan error, many)
	for i := range many {
		go func() {
			answers <- live.Get(ctx, client.ObjectKey{Namespace: fmt.Sprint("ns-", i), Name: "web"}, &corev1.Pod{})
		}()
	}
	for range many - total {
		if err := <-answers; !errors.Is(err, fair.ErrCrowded) {
			t.Errorf("error %v, want that too many reads wait", err)
		}
	}
	cancel()
	for range total {
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that the request went away", err)
		}
	}
}
