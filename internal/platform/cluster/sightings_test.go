package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/testenv"
)

// A pod is known to have run on its node while it is there, and as long afterwards as its
// addresses may be reserved.
func TestSightings(t *testing.T) {
	ns, at := env.Namespace(t), clocktesting.NewFakePassiveClock(time.Now())
	c := cached(t, cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.Annotations, func(from, to *corev1.Pod) {
		to.Spec.NodeName, to.Status.PodIPs = from.Spec.NodeName, from.Status.PodIPs
	})}})
	s := &cluster.Sightings{Clock: at, Retain: func(pod *corev1.Pod) time.Duration {
		if pod.Annotations["asks"] == "" {
			return 0
		}
		return time.Minute
	}}
	if err := s.Follow(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ran := func(pod string, uid types.UID, node string) bool {
		t.Helper()
		last, err := s.Last(t.Context(), c, client.ObjectKey{Namespace: ns, Name: pod})
		if err != nil {
			t.Fatal(err)
		}
		return last != nil && last.UID == uid && last.Node == node && !last.Created.IsZero() && last.Seen.Equal(at.Now())
	}
	within := func(what string, want bool, pod string, uid types.UID, node string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if got := ran(pod, uid, node); got != want {
				return fmt.Errorf("%s: %v, want %v", what, got, want)
			}
			return nil
		})
	}
	bound := testenv.APod("bound").In(ns).On("n1").At("10.0.0.1").With("asks", "yes").Pod
	unbound := testenv.APod("unbound").In(ns).With("asks", "yes").Pod
	asksNothing := testenv.APod("silent").In(ns).On("n1").At("10.0.0.1").Pod
	bare := testenv.APod("bare").In(ns).On("n1").With("asks", "yes").Pod
	env.Create(t, bound, unbound, asksNothing, bare)
	within("a pod that runs", true, "bound", bound.UID, "n1")
	within("a pod that runs and asks for nothing", true, "silent", asksNothing.UID, "n1")
	if ran("bound", bound.UID, "n2") || ran("bound", "another", "n1") || ran("unbound", unbound.UID, "n1") || ran("bare", bare.UID, "n1") || ran("none", "", "n1") {
		t.Error("a pod was seen where it never ran")
	}
	for _, pod := range []*corev1.Pod{bound, unbound, asksNothing, bare} {
		env.Remove(t, pod)
	}
	within("a deleted pod that asked for nothing", false, "silent", asksNothing.UID, "n1")
	within("a deleted pod", true, "bound", bound.UID, "n1")
	second := testenv.APod("bound").In(ns).On("n2").At("10.0.0.1").With("asks", "yes").Pod
	env.Create(t, second)
	within("the successor", true, "bound", second.UID, "n2")
	env.Remove(t, second)
	testenv.Eventually(t, func() error { // its deletion has the time of the clock at which it is seen
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(second), &corev1.Pod{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the successor is still cached: %w", err)
		}
		return nil
	})
	within("the latter of two deleted pods", true, "bound", second.UID, "n2")
	if ran("bare", bare.UID, "n1") || ran("bound", bound.UID, "n1") || ran("bound", second.UID, "n1") || ran("bound", bound.UID, "n2") {
		t.Error("a life was seen on the node of another one")
	}

	at.SetTime(at.Now().Add(2 * time.Hour)) // a later deletion removes what is over
	last := testenv.APod("last").In(ns).On("n3").At("10.0.0.1").With("asks", "yes").Pod
	env.Create(t, last)
	env.Remove(t, last)
	within("a pod that was deleted now", true, "last", last.UID, "n3")
	within("a pod whose reservation is over", false, "bound", second.UID, "n2")
}

// A tenant that creates and deletes many pods makes the controller forget its own pods only.
func TestSightingsAreBounded(t *testing.T) {
	at := clocktesting.NewFakePassiveClock(time.Now())
	c := cached(t, cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.Annotations, func(from, to *corev1.Pod) {
		to.Spec.NodeName, to.Status.PodIPs = from.Spec.NodeName, from.Status.PodIPs
	})}})
	s := &cluster.Sightings{Clock: at, Retain: func(*corev1.Pod) time.Duration { return time.Hour }, Most: fair.Bounds{Each: 3, All: 4}}
	if err := s.Follow(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	knows := func(ns, name string) bool {
		t.Helper()
		last, err := s.Last(t.Context(), c, client.ObjectKey{Namespace: ns, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return last != nil
	}
	lived := func(ns, name string) {
		t.Helper()
		at.SetTime(at.Now().Add(time.Second))
		pod := testenv.APod(name).In(ns).On("n1").At("10.0.0.1").Pod
		env.Create(t, pod)
		env.Remove(t, pod)
		testenv.Eventually(t, func() error {
			key := client.ObjectKeyFromObject(pod)
			if err := c.Get(t.Context(), key, &corev1.Pod{}); !apierrors.IsNotFound(err) || !knows(ns, name) {
				return fmt.Errorf("pod %s is not remembered yet: %w", key, err)
			}
			return nil
		})
	}
	victim, thief, other := env.Namespace(t), env.Namespace(t), env.Namespace(t)
	known := func(want ...string) {
		t.Helper()
		for _, name := range []string{"p0", "p1", "p2", "p3"} {
			if got := knows(thief, name); got != slices.Contains(want, name) {
				t.Errorf("pod %s of the thief is remembered: %t", name, got)
			}
		}
	}
	lived(victim, "db-0")
	for i := range 4 {
		lived(thief, fmt.Sprintf("p%d", i))
	}
	known("p1", "p2", "p3") // the bound of a namespace
	lived(other, "web-0")
	known("p2", "p3") // the bound of all
	if !knows(victim, "db-0") || !knows(other, "web-0") {
		t.Error("another namespace was forgotten")
	}
}
