package reconcile_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/rollout/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// The pods of a set start as its limit allows, the lowest ordinals first. Without the annotation
// all start.
func TestPodsStartAsTheLimitAllows(t *testing.T) {
	start(t)
	set := aSet(t, 6, with(limitOf, "2"))
	pods := grow(t, set, 5, 3, 4, 1, 2, 0)
	name := func(i int) string { return fmt.Sprint("web-", i) }
	// All pods exist before the test looks: those that came first may have started.
	testenv.Eventually(t, func() error {
		if n := len(openIn(t, set.Namespace)); n != 2 {
			return fmt.Errorf("%d pods are open, want 2", n)
		}
		return nil
	})
	env.Told(t, set, controller.ReasonScaleOutLimited, gate)
	for range 2 { // the lowest ordinal that waits is the next one
		before := openIn(t, set.Namespace)
		next := 0
		for slices.Contains(before, name(next)) {
			next++
		}
		for _, pod := range pods {
			if slices.Contains(before, pod.Name) && pod.Status.Phase != corev1.PodRunning {
				ready(t, pod)
				break
			}
		}
		opened(t, set.Namespace, append(before, name(next))...)
	}
	env.Annotate(t, set, limitOf, "")
	opened(t, set.Namespace, name(0), name(1), name(2), name(3), name(4), name(5))
}

// A pod is available when it was Ready for long enough, and the pods that a set no longer wants do
// not start.
func TestTheLimitCountsWhatIsAvailable(t *testing.T) {
	start(t)
	set := aSet(t, 2, with(limitOf, "50%"), func(s testenv.StatefulSet) { s.Spec.MinReadySeconds = 2 })
	first := grow(t, set, 0)[0]
	opened(t, set.Namespace, "web-0")
	ready(t, first)
	grow(t, set, 1, 2)
	opened(t, set.Namespace, "web-0", "web-1") // and nothing happens meanwhile but that time goes by
	env.Patch(t, set, `{"spec":{"replicas":3}}`)
	env.Annotate(t, set, limitOf, "two")
	env.Told(t, set, controller.ReasonInvalidLimit, "two")
	opened(t, set.Namespace, "web-0", "web-1", "web-2")
}

// A gate that no limit needs is opened: a user can write it into any template, and an owner can be
// changed or deleted.
func TestAGateWithoutALimitIsOpened(t *testing.T) {
	start(t)
	set := aSet(t, 1)
	ordered := testenv.AStatefulSet("ordered", 1).In(set.Namespace).With(limitOf, "1").StatefulSet
	gone := testenv.AStatefulSet("gone", 1).In(set.Namespace).StatefulSet
	env.Create(t, ordered)
	bare := testenv.APod("bare").In(set.Namespace).Gated("example.com/own", gate)
	former := testenv.APod("former").In(set.Namespace).OwnedBy(set).Gated(gate)
	former.OwnerReferences[0].UID = "predecessor"
	for _, pod := range []testenv.Pod{bare, former, testenv.APod("left").In(set.Namespace).OwnedBy(gone).Gated(gate)} {
		create(t, pod)
	}
	grow(t, set, 0)
	grow(t, ordered, 0)
	opened(t, set.Namespace, "bare", "former", "left", "ordered-0", "web-0")
	env.Read(t, client.ObjectKeyFromObject(bare.Pod), bare.Pod)
	if got := gatesOf(bare.Pod); !slices.Equal(got, []string{"example.com/own"}) {
		t.Errorf("the gates are %v, want the user's alone", got)
	}
}

// Pods that wait when their set is deleted without them are let start.
func TestPodsOfADeletedSetStart(t *testing.T) {
	start(t)
	set := aSet(t, 2, with(limitOf, "1"))
	grow(t, set, 0, 1)
	testenv.Eventually(t, func() error {
		if n := len(openIn(t, set.Namespace)); n != 1 {
			return fmt.Errorf("%d pods are open, want 1", n)
		}
		return nil
	})
	env.Remove(t, set)
	opened(t, set.Namespace, "web-0", "web-1")
}

// A gate stays closed while no controller leads. Two leaders, as for a moment when the first one
// is cut off, keep the limit together.
func TestTheLimitHoldsWhileTheLeaderChanges(t *testing.T) {
	stop := start(t)
	set := aSet(t, 30, with(limitOf, "3"))
	watched := watchStarts(t, set.Namespace)
	var ordinals []int
	for i := range 30 {
		ordinals = append(ordinals, i)
	}
	pods := grow(t, set, ordinals...)
	random := rand.New(rand.NewPCG(1, 2))
	progress := func(until int) {
		testenv.Eventually(t, func() error {
			open := openIn(t, set.Namespace)
			random.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
			for _, name := range open {
				i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.Name == name })
				if pods[i].Status.Phase != corev1.PodRunning {
					ready(t, pods[i])
					break
				}
			}
			if len(open) < until {
				return fmt.Errorf("%d pods are open, want %d", len(open), until)
			}
			return nil
		})
	}
	progress(10)
	start(t) // the new leader, while the old one runs
	progress(20)
	stop()
	progress(30)
	if most := watched(); most != 3 {
		t.Errorf("%d pods were on their way at a time, want 3", most)
	}
}

// watchStarts returns how many pods of a namespace were on their way at a time: without a gate,
// and not Ready.
func watchStarts(t *testing.T, ns string) (most func() int) {
	t.Helper()
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(ns))
	if err != nil {
		t.Fatal(err)
	}
	highest := make(chan int)
	go func() {
		top, starts := 0, map[string]bool{}
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			delete(starts, pod.Name)
			if len(pod.Spec.SchedulingGates) == 0 && pod.Status.Phase != corev1.PodRunning {
				starts[pod.Name] = true
			}
			top = max(top, len(starts))
		}
		highest <- top
	}()
	return func() int {
		w.Stop()
		return <-highest
	}
}
