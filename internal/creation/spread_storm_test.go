package creation_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
)

// census follows the pods of a namespace in the order of the API server, and notes the most
// pods that a subset ever had.
type census struct {
	mu      sync.Mutex
	subsets map[types.UID]string
	most    map[string]int
	without int
}

func (c *census) follow(events <-chan watch.Event) {
	for e := range events {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		c.mu.Lock()
		if e.Type == watch.Deleted || !workload.Alive(pod) {
			delete(c.subsets, pod.UID)
		} else {
			c.subsets[pod.UID] = subsetOf(pod)
			count := c.now()
			c.without += count[""]
			for subset, n := range count {
				c.most[subset] = max(c.most[subset], n)
			}
		}
		c.mu.Unlock()
	}
}

func (c *census) now() map[string]int {
	count := map[string]int{}
	for _, subset := range c.subsets {
		count[subset]++
	}
	return count
}

// pods returns the subsets of the pods that exist.
func (c *census) pods() map[types.UID]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.subsets)
}

// storm creates and deletes pods of a ReplicaSet, some at a time, through two replicas of the
// webhook. The ReplicaSet never has more pods than it wants, as its controller sees to that.
func storm(tb testing.TB, creations, size, atOnce int) (*census, *census) {
	tb.Helper()
	ns := env.Namespace(tb)
	_, rs := aDeployment(tb, ns, int32(size))
	limit := size * 2 / 5
	env.Create(tb, aSpread(ns, "web", "apps/v1", "Deployment", "web", fmt.Sprintf("a=%d", limit), fmt.Sprintf("b=%d", limit), "c"))
	sent(tb, generated(rs))
	config := rest.CopyConfig(env.Config)
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: env.Scheme, Mapper: env.Client.RESTMapper()})
	if err != nil {
		tb.Fatal(err)
	}
	w := watchPods(tb, c, ns)
	seen := &census{subsets: map[types.UID]string{}, most: map[string]int{}}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		seen.follow(w.ResultChan())
	}()
	var left atomic.Int64
	left.Store(int64(creations))
	var workers sync.WaitGroup
	var failed atomic.Pointer[error]
	var refused refusals
	for i := range atOnce {
		workers.Go(func() {
			if err := churn(tb.Context(), c, rs, &left, &refused, size/atOnce+min(1, max(0, size%atOnce-i))); err != nil {
				failed.Store(&err)
			}
		})
	}
	workers.Wait()
	if err := failed.Load(); err != nil {
		tb.Fatal(*err)
	}
	if n := refused.count.Load(); n > 0 {
		tb.Errorf("%d creations were refused, such as with %v, want none", n, *refused.last.Load())
	}
	final := &census{subsets: map[types.UID]string{}}
	var pods corev1.PodList
	if err := c.List(tb.Context(), &pods, client.InNamespace(ns)); err != nil {
		tb.Fatal(err)
	}
	for i := range pods.Items {
		final.subsets[pods.Items[i].UID] = subsetOf(&pods.Items[i])
	}
	testenv.Eventually(tb, func() error { // the watch tells of the last pods later
		if !maps.Equal(seen.pods(), final.subsets) {
			return fmt.Errorf("the watch has not told of %d pods", len(final.subsets))
		}
		return nil
	})
	w.Stop()
	<-w.Done()
	<-followed
	if seen.most["a"] > limit || seen.most["b"] > limit || seen.without > 0 {
		tb.Errorf("the subsets had up to %v pods, want at most %d in a and in b, and none without a subset", seen.most, limit)
	}
	return seen, final
}

// watchPods watches the pods of a namespace. The watch is resumed where the API server ended it, as it does with a
// client that is slow.
func watchPods(tb testing.TB, c client.WithWatch, ns string) *watchtools.RetryWatcher {
	tb.Helper()
	var pods corev1.PodList
	if err := c.List(tb.Context(), &pods, client.InNamespace(ns)); err != nil {
		tb.Fatal(err)
	}
	w, err := watchtools.NewRetryWatcherWithContext(tb.Context(), pods.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &corev1.PodList{}, client.InNamespace(ns), &client.ListOptions{Raw: &options})
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// refusals are the creations that the webhook refused.
type refusals struct {
	count atomic.Int64
	last  atomic.Pointer[error]
}

// churn creates some pods, and replaces the oldest of them while creations are left.
func churn(ctx context.Context, c client.Client, rs *appsv1.ReplicaSet, left *atomic.Int64, refused *refusals, size int) error {
	var own []*corev1.Pod
	for left.Add(-1) >= 0 {
		if len(own) == size {
			if err := c.Delete(ctx, own[0], client.GracePeriodSeconds(0)); err != nil {
				return err
			}
			own = own[1:]
		}
		pod, err := createUntilAccepted(ctx, c, rs, refused)
		if err != nil {
			return err
		}
		own = append(own, pod)
	}
	return nil
}

// createUntilAccepted creates a pod, as the controller of a ReplicaSet does: a refused creation is tried again, and
// counted.
func createUntilAccepted(ctx context.Context, c client.Client, rs *appsv1.ReplicaSet, refused *refusals) (pod *corev1.Pod, err error) {
	for range 20 {
		pod = generated(rs)
		if err = c.Create(ctx, pod); !apierrors.IsServiceUnavailable(err) && !apierrors.IsInternalError(err) {
			return pod, err
		}
		refused.count.Add(1)
		refused.last.Store(&err)
	}
	return pod, err
}

// Two replicas never overfill a subset, however pods come and go, and refuse no pod.
func TestTwoReplicasNeverOverfillASubset(t *testing.T) {
	serve(t)
	seen, _ := storm(t, 200, 20, 10)
	if seen.most["a"] == 0 || seen.most["b"] == 0 || seen.most["c"] == 0 {
		t.Errorf("the subsets had up to %v pods, want some in each", seen.most)
	}
}

// When pods come one at a time, the subsets are full whenever their pods suffice.
func TestSubsetsAreFilledAgain(t *testing.T) {
	serve(t)
	_, final := storm(t, 60, 10, 1)
	if got := final.now(); got["a"] != 4 || got["b"] != 4 || got["c"] != 2 {
		t.Errorf("pods of the subsets: %v", got)
	}
}

// BenchmarkStorm creates and deletes pods through two replicas, with -benchtime=10000x as many.
func BenchmarkStorm(b *testing.B) {
	serve(b)
	b.ResetTimer()
	seen, final := storm(b, b.N, 100, 50)
	b.Logf("%d creations: at most %v at a time, %v at the end", b.N, seen.most, final.now())
}
