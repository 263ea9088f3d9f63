package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
)

// A pod is known to have run on its node while it is there, and as long afterwards as its
// addresses may be reserved.
func TestSightings(t *testing.T) {
	ns, at := env.Namespace(t), clocktesting.NewFakePassiveClock(time.Now())
	c := cached(t, cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.Annotations, func(from, to *corev1.Pod) { to.Spec.NodeName = from.Spec.NodeName })}})
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
		lives, err := s.Lives(t.Context(), c, client.ObjectKey{Namespace: ns, Name: pod})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(lives, func(l cluster.Life) bool { return l.UID == uid && l.Node == node && !l.Created.IsZero() })
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
	bound := testenv.APod("bound").In(ns).On("n1").With("asks", "yes").Pod
	unbound := testenv.APod("unbound").In(ns).With("asks", "yes").Pod
	asksNothing := testenv.APod("silent").In(ns).On("n1").Pod
	env.Create(t, bound, unbound, asksNothing)
	within("a pod that runs", true, "bound", bound.UID, "n1")
	within("a pod that runs and asks for nothing", true, "silent", asksNothing.UID, "n1")
	if ran("bound", bound.UID, "n2") || ran("bound", "another", "n1") || ran("unbound", unbound.UID, "n1") || ran("none", "", "n1") {
		t.Error("a pod was seen where it never ran")
	}
	for _, pod := range []*corev1.Pod{bound, unbound, asksNothing} {
		env.Remove(t, pod)
	}
	within("a deleted pod that asked for nothing", false, "silent", asksNothing.UID, "n1")
	within("a deleted pod", true, "bound", bound.UID, "n1")
	second := testenv.APod("bound").In(ns).On("n2").With("asks", "yes").Pod
	env.Create(t, second)
	within("the successor", true, "bound", second.UID, "n2")
	env.Remove(t, second)
	within("the former of two deleted pods", true, "bound", bound.UID, "n1")
	within("the latter of them", true, "bound", second.UID, "n2")
	lives, err := s.Lives(t.Context(), c, client.ObjectKeyFromObject(bound))
	if err != nil || len(lives) != 2 || lives[0].UID != bound.UID || lives[1].UID != second.UID {
		t.Errorf("lives %v, %v, want the former first", lives, err)
	}
	if ran("bound", second.UID, "n1") || ran("bound", bound.UID, "n2") {
		t.Error("a life was seen on the node of another one")
	}

	at.SetTime(at.Now().Add(2 * time.Hour)) // a later deletion removes what is over
	last := testenv.APod("last").In(ns).On("n3").With("asks", "yes").Pod
	env.Create(t, last)
	env.Remove(t, last)
	within("a pod that was deleted now", true, "last", last.UID, "n3")
	within("a pod whose reservation is over", false, "bound", bound.UID, "n1")
}
