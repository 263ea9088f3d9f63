package main

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// waited lets pods wait for a required node that cannot take them: never silently, and
// for as long as their user wants.
func waited(t *testing.T) {
	cases := map[string]struct {
		key, value string
		forgotten  bool // the PersistentPodState is made anew before
	}{
		"until its node suffers a fate to go for":                        {pin.AnnotationReleaseOn, "deleted,cordoned", false},
		"until its time is over":                                         {pin.AnnotationReleaseAfter, "1s", false},
		"until a node that only its addresses told of suffers that fate": {pin.AnnotationReleaseOn, "deleted,cordoned", true},
		"until its time is over, though only its addresses told of it":   {pin.AnnotationReleaseAfter, "1s", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := env.Namespace(t)
			node := testenv.ANode("w-" + ns[len(ns)-5:])
			set := testenv.AStatefulSet("web", 1).In(ns)
			env.Create(t, node.Node, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Requires(hostname).PersistentPodState)
			pod := living(t, set.StatefulSet, node.Name, "10.0.3.9")
			cordon(t, node.Node)
			remove(t, pod)
			if tc.forgotten {
				forget(t, set.StatefulSet, pod)
			}
			pod = refused(t, set.StatefulSet)
			if want := hostname + "=" + node.Name; pod.Annotations[pin.AnnotationPlace] != want {
				t.Fatalf("annotations %v, want the required place %s", pod.Annotations, want)
			}
			testenv.Eventually(t, func() error { return waitingAs(t, set.StatefulSet, metav1.ConditionTrue, pin.ReasonNodeCordoned) })
			testenv.Eventually(t, func() error { return toldOf(t, pod, pin.ReasonWaiting, "uncordon it") })

			state, err := stateOf(t, set.StatefulSet)
			if err != nil {
				t.Fatal(err)
			}
			annotate(t, state, tc.key, tc.value)
			testenv.Eventually(t, func() error {
				err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("get pod: %w, want it let go", err)
			})
			testenv.Eventually(t, func() error { return waitingAs(t, set.StatefulSet, metav1.ConditionFalse, appsv1beta1.ReasonNoneWaits) })
			next := refused(t, set.StatefulSet)
			if a := next.Spec.Affinity; next.Annotations[pin.AnnotationPlace] != "" || a != nil {
				t.Errorf("annotations %v, affinity %v, want a pod that may go elsewhere", next.Annotations, a)
			}
		})
	}
}

// reworded has other keys required while a pod waits for its node, which has not been
// recorded with them. The pod is let go from its node, and held to the new place.
func reworded(t *testing.T) {
	ns := env.Namespace(t)
	rack := ns[len(ns)-5:]
	node := testenv.ANode("w-"+rack).Labelled("example.com/rack", rack)
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, node.Node, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Requires(hostname).PersistentPodState)
	pod := living(t, set.StatefulSet, node.Name, "10.0.3.9")
	cordon(t, node.Node)
	remove(t, pod)
	refused(t, set.StatefulSet)
	testenv.Eventually(t, func() error { return waitingAs(t, set.StatefulSet, metav1.ConditionTrue, pin.ReasonNodeCordoned) })

	state, err := stateOf(t, set.StatefulSet)
	if err != nil {
		t.Fatal(err)
	}
	before := state.DeepCopy()
	state.Spec.RequiredPersistentTopology.Keys = []string{"example.com/rack"}
	if err := env.Client.Patch(t.Context(), state, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error { return waitingAs(t, set.StatefulSet, metav1.ConditionFalse, appsv1beta1.ReasonNoneWaits) })
	testenv.Eventually(t, func() error { // it is deleted after that is said
		next := testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).Pod
		if err := env.Client.Create(t.Context(), next); err != nil {
			return err
		}
		if want := "example.com/rack=" + rack; next.Annotations[pin.AnnotationPlace] != want {
			t.Errorf("annotations %v, want the required place %s", next.Annotations, want)
		}
		return nil
	})
}

// forget makes a set's PersistentPodState anew, and waits until the pod's reservation is
// seen, which is all that is known of it then.
func forget(t *testing.T, set *appsv1.StatefulSet, pod *corev1.Pod) {
	t.Helper()
	state, err := stateOf(t, set)
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	env.Create(t, testenv.APersistentPodState(state.Name).In(state.Namespace).Requires(hostname).PersistentPodState)
	hold(t, pod, time.Now())
	testenv.Eventually(t, func() error {
		again := testenv.APod(pod.Name).In(pod.Namespace).OwnedBy(set).With(reservation.RetainAnnotation, "10").Pod
		if err := env.Client.Create(t.Context(), again); err != nil {
			return err
		}
		remove(t, again)
		if again.Annotations[pin.AnnotationRecalled] == "" {
			return fmt.Errorf("annotations %v, want its place recalled", again.Annotations)
		}
		return nil
	})
}

func cordon(t *testing.T, node *corev1.Node) {
	t.Helper()
	before := node.DeepCopy()
	node.Spec.Unschedulable = true
	if err := env.Client.Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

// refused makes the set's pod, and plays a scheduler that finds nothing for it.
func refused(t *testing.T, set *appsv1.StatefulSet) *corev1.Pod {
	t.Helper()
	pod := testenv.APod("web-0").In(set.Namespace).OwnedBy(set).With(reservation.RetainAnnotation, "10").Pod
	if err := env.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	before := pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/1 nodes are available: 1 node(s) were unschedulable.",
	}}
	if err := env.Client.Status().Patch(t.Context(), pod, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	return pod
}

func waitingAs(t *testing.T, set *appsv1.StatefulSet, status metav1.ConditionStatus, reason string) error {
	t.Helper()
	state, err := stateOf(t, set)
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(state.Status.Conditions, appsv1beta1.ConditionWaiting)
	if c == nil || c.Status != status || c.Reason != reason {
		return fmt.Errorf("condition %+v, want %s for %s", c, status, reason)
	}
	return nil
}
