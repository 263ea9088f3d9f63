package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// gated makes a pod of a workload that is out of service for ten seconds before it goes.
func gated(t *testing.T, set testenv.StatefulSet, ordinal int, edits ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := testenv.APod(fmt.Sprintf("%s-%d", set.Name, ordinal)).In(set.Namespace).OwnedBy(set.StatefulSet).With(policyv1beta1.AnnotationDrainFirst, "10s")
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: policyv1beta1.ConditionInService}}
	for _, edit := range edits {
		edit(pod.Pod)
	}
	env.Create(t, pod.Pod)
	return pod.Pod
}

// inService waits for the reason of the condition of a pod.
func inService(t *testing.T, pod *corev1.Pod, reason string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var now corev1.Pod
		env.Read(t, client.ObjectKeyFromObject(pod), &now)
		if c := budget.Service(&now); c == nil || c.Status != corev1.ConditionTrue || c.Reason != reason {
			return fmt.Errorf("condition %+v, want True, %s", c, reason)
		}
		return nil
	})
}

// turn takes a pod out of service, as the guard does.
func turn(t *testing.T, pod *corev1.Pod, reason string, since time.Time) {
	t.Helper()
	env.Read(t, client.ObjectKeyFromObject(pod), pod)
	*budget.Service(pod) = corev1.PodCondition{
		Type: policyv1beta1.ConditionInService, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(since),
	}
	if err := env.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

func TestPodsAreInServiceUntilTheyGo(t *testing.T) {
	m, now := newManager(t), testingclock.NewFakePassiveClock(time.Now())
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 2).In(ns)
	env.Create(t, set.StatefulSet)
	kept, leaves := gated(t, set, 0), gated(t, set, 2) // the set is too small for the second
	m.start(t, m.labeler(now), &controller.Attendant{
		Client: m.GetClient(), Live: m.GetAPIReader(), Evictor: &evict.Evictor{Client: m.GetClient()}, Kinds: workloads.NewRegistry(), Clock: now,
	})
	inService(t, kept, budget.ReasonInService)
	inService(t, leaves, budget.ReasonInService)
	labelled(t, ns, policyv1beta1.LabelBudgetsAsked, false)

	turn(t, kept, budget.ReasonRepeat, now.Now().Add(-time.Minute)) // 2 × 10 s and 30 s have passed
	inService(t, kept, budget.ReasonUnasked)
	env.Annotate(t, kept, policyv1beta1.AnnotationDrainFirst, "10m")
	turn(t, kept, budget.ReasonRepeat, now.Now().Add(-time.Minute))
	env.Annotate(t, kept, policyv1beta1.AnnotationDrainFirst, "10s")
	inService(t, kept, budget.ReasonUnasked)
	turn(t, kept, budget.ReasonFollows, now.Now().Add(-15*time.Second)) // its set wants it
	inService(t, kept, budget.ReasonUnasked)
	turn(t, leaves, budget.ReasonFollows, now.Now().Add(-15*time.Second))
	testenv.Eventually(t, func() error {
		var pod corev1.Pod
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(leaves), &pod); !apierrors.IsNotFound(err) {
			return fmt.Errorf("pod %s is there: %w", leaves.Name, err)
		}
		return nil
	})
	env.Remove(t, kept)
	labelled(t, ns, policyv1beta1.LabelBudgetsAsked, true)
}

// A workload with thousands of pods that are out of service is woken once a second.
func TestAWorkloadIsWokenOnceForAllItsPods(t *testing.T) {
	m, now := newManager(t), testingclock.NewFakePassiveClock(time.Now())
	observed, traffic := env.Observe(t)
	set := testenv.AStatefulSet("web", 0).In(env.Namespace(t))
	replicated := func(pod *corev1.Pod) { pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].UID = "ReplicaSet", "r" }
	var pods []*corev1.Pod
	for i := range 8 {
		pods = append(pods, gated(t, set, i, replicated))
	}
	m.start(t, &controller.Attendant{
		Client: observed, Live: m.GetAPIReader(), Evictor: &evict.Evictor{Client: observed}, Kinds: workloads.NewRegistry(), Clock: now,
	})
	for i := range pods {
		inService(t, pods[i], budget.ReasonInService)
		turn(t, pods[i], budget.ReasonFollows, now.Now().Add(-15*time.Second))
	}
	for _, pod := range pods {
		turn(t, pod, budget.ReasonRepeat, now.Now().Add(-time.Minute))
		inService(t, pod, budget.ReasonUnasked)
	}
	if n := traffic.Count("/replicasets/web"); n != 1 {
		t.Errorf("%d patches of the ReplicaSet, want 1", n)
	}
}
