package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// ordinals keeps the record of a pod that is away, of a StatefulSet that does not count
// from 0.
func ordinals(t *testing.T) {
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 2).In(ns).StartingAt(5)
	env.Create(t, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState)
	away := testenv.APod("web-5").In(ns).OwnedBy(set.StatefulSet).On("n1").Ready().Pod
	env.Create(t, away)
	testenv.Eventually(t, func() error { return recordedOn(t, set, map[string]string{"web-5": "n1"}) })
	remove(t, away)
	env.Create(t, testenv.APod("web-6").In(ns).OwnedBy(set.StatefulSet).On("n2").Ready().Pod)
	// Whoever has seen the second pod has seen the first one go.
	testenv.Eventually(t, func() error { return recordedOn(t, set, map[string]string{"web-5": "n1", "web-6": "n2"}) })
}

func recordedOn(t *testing.T, set testenv.StatefulSet, want map[string]string) error {
	t.Helper()
	state, err := stateOf(t, set.StatefulSet)
	if err != nil {
		return err
	}
	got := map[string]string{}
	for pod, record := range state.Status.PodStates {
		got[pod] = record.NodeName
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("recorded nodes (-want +got):\n%s", diff)
	}
	return nil
}

// relabelled records the labels of a node anew when they change, and those of a key that
// is added to the wish.
func relabelled(t *testing.T) {
	ns := env.Namespace(t)
	node := testenv.ANode("relabelled").Labelled("example.com/rack", "r1")
	set := testenv.AStatefulSet("web", 1).In(ns)
	wish := testenv.APersistentPodState("web").In(ns).Prefers(100, "example.com/rack")
	env.Create(t, node.Node, set.StatefulSet, wish.PersistentPodState)
	env.Create(t, testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).On(node.Name).Ready().Pod)
	labelled := func(want map[string]string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			state, err := stateOf(t, set.StatefulSet)
			if diff := cmp.Diff(want, state.Status.PodStates["web-0"].NodeTopologyLabels); err == nil && diff != "" {
				err = fmt.Errorf("recorded labels (-want +got):\n%s", diff)
			}
			return err
		})
	}
	labelled(map[string]string{"example.com/rack": "r1"})
	before := node.DeepCopy()
	node.Labels["example.com/rack"] = "r2"
	if err := env.Client.Patch(t.Context(), node.Node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	labelled(map[string]string{"example.com/rack": "r2"})
	state, err := stateOf(t, set.StatefulSet)
	if err != nil {
		t.Fatal(err)
	}
	old := state.DeepCopy()
	state.Spec.PreferredPersistentTopology[0].Preference.Keys = []string{"example.com/rack", hostname}
	if err := env.Client.Patch(t.Context(), state, client.MergeFrom(old)); err != nil {
		t.Fatal(err)
	}
	labelled(map[string]string{"example.com/rack": "r2", hostname: node.Name})
}

// neverReady brings a pod back to its addresses that was deleted before it was Ready.
func neverReady(t *testing.T) {
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState)
	pod := testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).On("n2").At("10.0.2.40").With(reservation.RetainAnnotation, "10").Pod
	pod.Status.Phase = corev1.PodPending
	env.Create(t, pod)
	hold(t, pod, time.Now())
	remove(t, pod)
	again := testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10").Pod
	testenv.Eventually(t, func() error { return pinnedAtOnce(t, again, "n2") })
	if again.Annotations[pin.AnnotationUnpinned] != "" {
		t.Errorf("annotations %v", again.Annotations)
	}
}

// outOfAddresses sends a pod elsewhere whose node has no address left, unless the node
// holds the pod's own.
func outOfAddresses(t *testing.T) {
	ns := env.Namespace(t)
	node := testenv.ANode("drained-pool")
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, node.Node, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState)
	pod := living(t, set.StatefulSet, node.Name, "10.0.9.2")
	env.Create(t, &limpetv1alpha1.NodeIPPool{
		ObjectMeta: metav1.ObjectMeta{Name: "net." + node.Name},
		Status:     limpetv1alpha1.NodeIPPoolStatus{Node: node.Name, Network: "net", Total: 6, Attached: 6},
	})
	remove(t, pod)
	next := testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10").Pod
	testenv.Eventually(t, func() error { // the replica hears of the pool in a moment
		fresh := next.DeepCopy()
		if err := env.Client.Create(t.Context(), fresh); err != nil {
			return err
		}
		remove(t, fresh)
		if fresh.Annotations[pin.AnnotationUnpinned] != pin.ReasonNodeOutOfIPs || len(fresh.Spec.SchedulingGates) > 0 {
			return fmt.Errorf("annotations %v, gates %v", fresh.Annotations, fresh.Spec.SchedulingGates)
		}
		return nil
	})
	hold(t, pod, time.Now())
	testenv.Eventually(t, func() error { return pinnedAtOnce(t, next, node.Name) })
}

// thousands holds the records of three thousand pods in one object, and goes on recording
// and pinning them one by one.
func thousands(t *testing.T) {
	const many = 3000
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", many).In(ns)
	env.Create(t, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState)
	records := map[string]appsv1beta1.PodState{}
	for i := range many {
		records[fmt.Sprintf("web-%d", i)] = appsv1beta1.PodState{
			UID: types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012d", i)), NodeName: "n1", RetainSeconds: 600,
			IPs: fmt.Sprintf("10.%d.%d.7,fd00:10:244:1::%x", i/250, i%250, i), NodeTopologyLabels: map[string]string{hostname: "n1"},
		}
	}
	testenv.Eventually(t, func() error { // the first write is the controller's
		state, err := stateOf(t, set.StatefulSet)
		if err != nil || len(state.Status.Conditions) == 0 {
			return fmt.Errorf("conditions %v: %w", state.Status.Conditions, err)
		}
		state.Status.PodStates = records
		return env.Client.Status().Update(t.Context(), state)
	})
	pod := testenv.APod(fmt.Sprintf("web-%d", many-1)).In(ns).OwnedBy(set.StatefulSet).On("n2").Ready().Pod
	env.Create(t, pod)
	testenv.Eventually(t, func() error {
		state, err := stateOf(t, set.StatefulSet)
		if got := state.Status.PodStates[pod.Name]; err == nil && (got.NodeName != "n2" || len(state.Status.PodStates) != many) {
			err = fmt.Errorf("%d records, the last one %+v", len(state.Status.PodStates), got)
		}
		return err
	})
	remove(t, pod)
	for name, node := range map[string]string{pod.Name: "n2", "web-1500": "n1"} {
		again := testenv.APod(name).In(ns).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10").Pod
		testenv.Eventually(t, func() error { return pinnedAtOnce(t, again, node) })
	}
}

// full has pods with so much to record that one object cannot hold it, until less is
// asked for.
func full(t *testing.T) {
	const key, many = "example.com/blob", 8
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", many).In(ns)
	wish := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState
	wish.Spec.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: key}}
	env.Create(t, set.StatefulSet, wish)
	for i := range many {
		pod := testenv.APod(fmt.Sprintf("web-%d", i)).In(ns).OwnedBy(set.StatefulSet).On("n1").With(key, strings.Repeat("x", 200<<10))
		env.Create(t, pod.Ready().Pod)
	}
	records := func(want int) {
		t.Helper()
		testenv.Eventually(t, func() error {
			read(t, client.ObjectKeyFromObject(wish), wish)
			if got := len(wish.Status.PodStates); got != want {
				return fmt.Errorf("%d records, want %d", got, want)
			}
			return nil
		})
	}
	conditioned(t, wish, appsv1beta1.ReasonRecordFull, "2 pods")
	records(many - 2)
	change(t, wish, func() { wish.Spec.PersistentPodAnnotations = nil })
	conditioned(t, wish, appsv1beta1.ReasonRecording, "")
	records(many)
}
