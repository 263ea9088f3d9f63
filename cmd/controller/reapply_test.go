package main

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// reapplied deletes a StatefulSet and applies it again; its pods return all the same.
// There is no garbage collector here, so each case does what it would have done.
func reapplied(t *testing.T) {
	cases := map[string]struct {
		collect func(*testing.T, *appsv1beta1.PersistentPodState)
		adopted bool // the former object is expected to live on
	}{
		"before the collector came": {func(*testing.T, *appsv1beta1.PersistentPodState) {}, true},
		"with --cascade=orphan":     {func(t *testing.T, s *appsv1beta1.PersistentPodState) { own(t, s, nil) }, true},
		"after the record was collected too": {func(t *testing.T, s *appsv1beta1.PersistentPodState) {
			if err := env.Client.Delete(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := env.Namespace(t)
			aSet := func() testenv.StatefulSet {
				return testenv.AStatefulSet("web", 1).In(ns).
					With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
			}
			former, next := aSet(), aSet()
			env.Create(t, former.StatefulSet)
			pod := living(t, former.StatefulSet, "n2", "10.0.2.9")
			hold(t, pod, time.Now())
			state, err := stateOf(t, former.StatefulSet)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range []client.Object{former.StatefulSet, pod} {
				if err := env.Client.Delete(t.Context(), o, client.GracePeriodSeconds(0)); err != nil {
					t.Fatal(err)
				}
			}
			tc.collect(t, state)

			env.Create(t, next.StatefulSet)
			again := testenv.APod("web-0").In(ns).OwnedBy(next.StatefulSet).With(reservation.RetainAnnotation, "10").Pod
			testenv.Eventually(t, func() error { return pinnedAtOnce(t, again, "n2") })
			opened(t, again, "n2")
			testenv.Eventually(t, func() error { return belongsTo(t, next, *state, tc.adopted) })
			bind(t, again, "n2", "10.0.2.9")
			kept := appsv1beta1.Rebuild{Pod: "web-0", Outcome: appsv1beta1.Kept, From: placeOf(pod), To: placeOf(again)}
			testenv.Eventually(t, func() error { return countedAs(t, ns, appsv1beta1.Rebuilds{Kept: 1, Last: &kept}) })
		})
	}
}

// pinnedAtOnce creates a pod as soon as its StatefulSet is there, as its controller does.
// The reservation alone may be new to the replica's cache.
func pinnedAtOnce(t *testing.T, pod *corev1.Pod, node string) error {
	t.Helper()
	fresh := pod.DeepCopy()
	if err := env.Client.Create(t.Context(), fresh); err != nil {
		return err
	}
	if fresh.Annotations[pin.AnnotationNode] == node {
		*pod = *fresh
		return nil
	}
	if err := env.Client.Delete(t.Context(), fresh, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	return fmt.Errorf("annotations %v, want a pin to %s", fresh.Annotations, node)
}

// hold shows a pod's addresses as reserved since a moment, as the agent of its node would.
func hold(t *testing.T, pod *corev1.Pod, since time.Time) {
	t.Helper()
	until := metav1.NewTime(since.Add(10 * time.Minute))
	env.Create(t, &limpetv1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "web-0.eth0.net." + pod.Spec.NodeName},
		Status: limpetv1alpha1.IPReservationStatus{
			Node: pod.Spec.NodeName, Network: "net", Interface: "eth0", Pod: pod.Name, PodUID: string(pod.UID),
			IPs: pod.Status.PodIPs[0].IP, State: limpetv1alpha1.IPReserved, Until: &until, RetainMinutes: 10,
		},
	})
}

func belongsTo(t *testing.T, set testenv.StatefulSet, before appsv1beta1.PersistentPodState, adopted bool) error {
	t.Helper()
	state, err := stateOf(t, set.StatefulSet)
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(state, set) {
		return fmt.Errorf("owners %v, want the new StatefulSet", state.OwnerReferences)
	}
	if (state.UID == before.UID) != adopted {
		t.Errorf("adopted %v, want %v", state.UID == before.UID, adopted)
	}
	return nil
}

func stateOf(t *testing.T, set *appsv1.StatefulSet) (*appsv1beta1.PersistentPodState, error) {
	t.Helper()
	var state appsv1beta1.PersistentPodState
	return &state, env.Client.Get(t.Context(), client.ObjectKeyFromObject(set), &state)
}

// adopted leaves pods running while their StatefulSet is deleted and made anew, as for a
// change of what cannot be changed. They ask for no address, so nothing else remembers
// their place.
func adopted(t *testing.T) {
	ns := env.Namespace(t)
	aSet := func() testenv.StatefulSet {
		return testenv.AStatefulSet("web", 1).In(ns).
			With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	}
	former, next := aSet(), aSet()
	env.Create(t, former.StatefulSet)
	pod := testenv.APod("web-0").In(ns).OwnedBy(former.StatefulSet).On("n2").Ready().Pod
	env.Create(t, pod)
	testenv.Eventually(t, func() error { return recordedOn(t, former, map[string]string{"web-0": "n2"}) })
	state, err := stateOf(t, former.StatefulSet)
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), former.StatefulSet, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{former.StatefulSet, state, pod} { // what the garbage collector does
		own(t, o, nil)
	}
	testenv.Eventually(t, func() error { return recordedOn(t, former, map[string]string{}) })

	env.Create(t, next.StatefulSet)
	testenv.Eventually(t, func() error { return belongsTo(t, next, *state, true) })
	own(t, pod, testenv.APod("web-0").OwnedBy(next.StatefulSet).OwnerReferences)
	testenv.Eventually(t, func() error { return recordedOn(t, next, map[string]string{"web-0": "n2"}) })
}

// own gives an object other owners, and takes away what waits for the garbage collector.
func own(t *testing.T, o client.Object, owners []metav1.OwnerReference) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return client.IgnoreNotFound(err)
		}
		o.SetOwnerReferences(owners)
		o.SetFinalizers(nil)
		return env.Client.Update(t.Context(), o)
	})
}

// scaled takes a StatefulSet to zero and back under each retention policy.
func scaled(t *testing.T) {
	cases := map[string]struct {
		policy  appsv1beta1.RetentionPolicy
		kept    bool // the record outlives the pod
		expires bool // but not for ever
	}{
		"without a policy the record lives as long as the reservation": {"", true, true},
		"WhenScaled ends it":   {appsv1beta1.RetainWhenScaled, false, false},
		"WhenDeleted keeps it": {appsv1beta1.RetainWhenDeleted, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := env.Namespace(t)
			set := testenv.AStatefulSet("web", 1).In(ns)
			wish := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname)
			wish.Spec.PersistentPodStateRetentionPolicy = tc.policy
			env.Create(t, set.StatefulSet, wish.PersistentPodState)
			pod := living(t, set.StatefulSet, "n2", "10.0.2.9")
			scale(t, set.StatefulSet, 0)
			if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, func() error {
				state, err := stateOf(t, set.StatefulSet)
				if err != nil {
					return err
				}
				record, kept := state.Status.PodStates["web-0"]
				if kept != tc.kept || (record.ExpiresAt != nil) != tc.expires {
					return fmt.Errorf("recorded %v until %v", kept, record.ExpiresAt)
				}
				return nil
			})
			scale(t, set.StatefulSet, 1)
			again := testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10").Pod
			if err := env.Client.Create(t.Context(), again); err != nil {
				t.Fatal(err)
			}
			if got := again.Annotations[pin.AnnotationNode] == "n2"; got != tc.kept {
				t.Errorf("pinned %v, want %v", got, tc.kept)
			}
		})
	}
}

func scale(t *testing.T, set *appsv1.StatefulSet, replicas int32) {
	t.Helper()
	before := set.DeepCopy()
	set.Spec.Replicas = &replicas
	if err := env.Client.Patch(t.Context(), set, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// unseen lets a pod move and be deleted while nobody leads, so that nobody records where
// it was. Its next life is to go there all the same: the node that holds its addresses
// says so.
func unseen(t *testing.T, leader *replica) {
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState)
	pod := living(t, set.StatefulSet, "n1", "10.0.1.9")
	leader.kill(t)

	if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	moved := scheduled(t, set.StatefulSet, "n2", "10.0.2.9")
	hold(t, moved, time.Now().Add(5*time.Second)) // it ran for a while
	if err := env.Client.Delete(t.Context(), moved, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	if state, err := stateOf(t, set.StatefulSet); err != nil || state.Status.PodStates["web-0"].NodeName != "n1" {
		t.Fatalf("record %v (%v), want the one that the leader left", state.Status.PodStates, err)
	}
	again := testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10").Pod
	testenv.Eventually(t, func() error { return pinnedAtOnce(t, again, "n2") })
	if got := again.Annotations[pin.AnnotationRecalled]; got != "n2" {
		t.Errorf("recalled to %q, want n2", got)
	}
}

// stale has a pod run on another node than before while the former one keeps its
// addresses, and the new one shows nothing: its agent was away, or somebody deleted what
// it showed. The pod returns to where it was Ready last.
func stale(t *testing.T) {
	cases := map[string]time.Duration{ // from the move to the end of the former life
		"which ended before":                      -time.Minute,
		"which ended late, on a silent node":      time.Minute,
		"which ended late, long after its return": time.Hour,
	}
	for name, late := range cases {
		t.Run(name, func(t *testing.T) {
			ns := env.Namespace(t)
			set := testenv.AStatefulSet("web", 1).In(ns)
			env.Create(t, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState)
			former := living(t, set.StatefulSet, "n1", "10.0.1.9")
			remove(t, former)
			hold(t, former, time.Now().Add(late))
			remove(t, living(t, set.StatefulSet, "n2", "10.0.2.9"))
			next := scheduled(t, set.StatefulSet, "n2", "10.0.2.9")
			if got := next.Annotations[pin.AnnotationNode]; got != "n2" {
				t.Errorf("pinned to %q, want n2, where it was Ready last", got)
			}
		})
	}
}
