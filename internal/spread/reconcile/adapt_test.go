package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	controller "github.com/limpet-io/limpet/internal/spread/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// adaptive skips a subset for some seconds after a pod was refused for one second.
func adaptive(recovery int32, policy appsv1beta1.ReturnPolicy) func(*appsv1beta1.WorkloadSpread) {
	return func(ws *appsv1beta1.WorkloadSpread) {
		ws.Spec.ScheduleStrategy = appsv1beta1.WorkloadSpreadScheduleStrategy{Type: appsv1beta1.SpreadAdaptive, Adaptive: &appsv1beta1.AdaptiveSpread{
			RescheduleCriticalSeconds: new(int32(1)), RecoverySeconds: &recovery, ReturnPolicy: policy,
		}}
	}
}

// refuse writes the scheduler's verdict.
func refuse(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	refusedSince(t, pod, time.Now())
}

func refusedSince(t *testing.T, pod *corev1.Pod, since time.Time) {
	t.Helper()
	env.ChangeStatus(t, pod, func() {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(since),
		}}
	})
}

// isGone waits until a pod is deleted.
func isGone(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var now corev1.Pod
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), &now)
		if apierrors.IsNotFound(err) || err == nil && now.DeletionTimestamp != nil {
			return nil
		}
		return fmt.Errorf("pod %s is there: %w", pod.Name, err)
	})
}

// A pod that the scheduler refuses is deleted after its subset is skipped, and the subset recovers.
func TestAdaptiveMovesOn(t *testing.T) {
	start(t)
	a := anApp(t, 2)
	stays := a.pod(t, "p0", node(t, "x"), match, matched("x"))
	waits := a.pod(t, "p1", "", match, matched("x"))
	ws := spreadOf(t, a, "2", adaptive(3, appsv1beta1.ReturnNever), "x", "y")
	shows(t, ws, "x:2/0/Sufficient y:0/-1/Sufficient Placed")
	refuse(t, waits)
	isGone(t, waits)
	env.Told(t, ws, controller.ReasonSubsetSkipped, "subset x gets no new pods for 3s")
	env.Told(t, ws, controller.ReasonRescheduled, "pod p1 is created again")
	shows(t, ws, "x:1/1/Sufficient y:0/-1/Sufficient Placed")
	env.Told(t, ws, controller.ReasonRecovered, "subset x gets new pods again")
	env.Read(t, client.ObjectKeyFromObject(stays), stays)
}

// A pod that waits for its required place is not deleted: no other subset helps it. Its subset says so.
func TestAdaptiveLeavesAPodThatWaitsForItsPlace(t *testing.T) {
	start(t)
	a := anApp(t, 2)
	held := a.pod(t, "held", "", match, matched("x"), podpatch.AnnotationPlace, "kubernetes.io/hostname=n1")
	other := a.pod(t, "other", "", match, matched("y"))
	ws := spreadOf(t, a, "2", adaptive(300, appsv1beta1.ReturnNever), "x", "y", "z")
	refusedSince(t, held, time.Now().Add(-time.Minute))
	refusedSince(t, other, time.Now().Add(-time.Minute))
	isGone(t, other)
	shows(t, ws, "x:1/1/PodWaits y:0/2/PodUnschedulable z:0/-1/Sufficient Placed")
	env.Read(t, client.ObjectKeyFromObject(held), held)
	if held.DeletionTimestamp != nil {
		t.Error("the pod was deleted")
	}
	env.Told(t, ws, controller.ReasonSubsetUnschedulable, "requires its recorded place")
}

// A pod of a spread that is not adaptive waits.
func TestFixedPodsStay(t *testing.T) {
	start(t)
	a := anApp(t, 1)
	waits := a.pod(t, "p1", "", match, matched("x"))
	ws := spreadOf(t, a, "2", nil, "x", "y")
	refuse(t, waits)
	shows(t, ws, "x:1/1 y:0/-1 Placed")
	env.Patch(t, a.Deployment, `{"spec":{"replicas":2}}`)
	env.Read(t, client.ObjectKeyFromObject(waits), waits)
	if waits.DeletionTimestamp != nil {
		t.Error("the pod was deleted")
	}
}

// Pods that are away return one at a time: the next one goes when the pod of the first one is Ready.
func TestPodsReturnOneAtATime(t *testing.T) {
	start(t)
	a := anApp(t, 3)
	x, y := node(t, "x"), node(t, "y")
	for i := range 2 {
		a.pod(t, fmt.Sprint("away-", i), y, match, matched("y"), home, "x")
	}
	a.pod(t, "settled", y, match, matched("y"))
	ws := spreadOf(t, a, "2", adaptive(300, appsv1beta1.ReturnWhenRecovered), "x", "y")
	first, second := &corev1.Pod{}, &corev1.Pod{}
	first.Namespace, first.Name, second.Namespace, second.Name = a.Namespace, "away-0", a.Namespace, "away-1"
	isGone(t, first)
	shows(t, ws, "x:0/2/Sufficient y:2/-1/Sufficient Placed")
	env.Told(t, ws, controller.ReasonReturned, "pod away-0 is created again in its own subset")
	back := a.pod(t, "back", "", match, matched("x"))
	shows(t, ws, "x:1/1/Sufficient y:2/-1/Sufficient Placed")
	env.Read(t, client.ObjectKeyFromObject(second), second)
	if second.DeletionTimestamp != nil {
		t.Error("the second pod went before the first one was Ready")
	}
	env.Remove(t, back)
	a.pod(t, "ready", x, match, matched("x"))
	isGone(t, second)
	shows(t, ws, "x:1/1/Sufficient y:1/-1/Sufficient Placed")
}

// A condition does not tell when a pod lost its scheduling gate. A leader that did not see that
// gives the scheduler its time.
func TestALeaderThatDidNotSeeTheGateWaits(t *testing.T) {
	env.Since(t, 33, "generation of pods: a leader takes each pod for one that was gated")
	a := anApp(t, 2)
	gated := testenv.APod("gated").Of(a.set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")).With(match, matched("x")).Gated("example.com/gate").Pod
	env.Create(t, gated)
	env.Patch(t, gated, `{"spec":{"schedulingGates":null}}`)
	never := a.pod(t, "never", "", match, matched("y"))
	for _, pod := range []*corev1.Pod{gated, never} {
		env.Read(t, client.ObjectKeyFromObject(pod), pod)
		refusedSince(t, pod, time.Now().Add(-2*time.Hour))
	}
	ws := spreadOf(t, a, "2", func(ws *appsv1beta1.WorkloadSpread) {
		adaptive(300, appsv1beta1.ReturnNever)(ws)
		ws.Spec.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds = new(int32(3600))
	}, "x", "y", "z")
	start(t)
	isGone(t, never)
	shows(t, ws, "x:1/1/Sufficient y:0/2/PodUnschedulable z:0/-1/Sufficient Placed")
}

// The event of a subset that is skipped counts the pods of that subset alone. Of two events at a time one may be shown.
func TestEachSkippedSubsetTellsOfItsOwnPods(t *testing.T) {
	a := anApp(t, 2)
	for name, subset := range map[string]string{"p1": "x", "p2": "y"} {
		refusedSince(t, a.pod(t, name, "", match, matched(subset)), time.Now().Add(-time.Minute))
	}
	ws := spreadOf(t, a, "2", adaptive(300, appsv1beta1.ReturnNever), "x", "y", "z")
	start(t)
	env.Told(t, ws, controller.ReasonSubsetSkipped, "found no node for 1 pods")
}
