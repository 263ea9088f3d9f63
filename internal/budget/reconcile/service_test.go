package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	env.ChangeStatus(t, pod, func() {
		*budget.Service(pod) = corev1.PodCondition{
			Type: policyv1beta1.ConditionInService, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(since),
			ObservedGeneration: pod.Generation,
		}
	})
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

// started writes what a kubelet tells after it has restarted the container of a pod.
func started(t *testing.T, pod *corev1.Pod, at time.Time) {
	t.Helper()
	env.Read(t, client.ObjectKeyFromObject(pod), pod)
	env.ChangeStatus(t, pod, func() {
		pod.Status.ObservedGeneration = pod.Generation
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}},
		}}
	})
}

// A pod that was changed in place is back in service when its container was started again. A handler that is done ends the
// wait of a workload.
func TestPodsAreBackAfterAChangeAndGoWhenTheirHandlerIsDone(t *testing.T) {
	m, now := newManager(t), testingclock.NewFakePassiveClock(time.Now())
	set := testenv.AStatefulSet("web", 1).In(env.Namespace(t))
	env.Create(t, set.StatefulSet)
	changed := gated(t, set, 0)
	leaves := gated(t, set, 2, func(p *corev1.Pod) {
		p.Annotations[policyv1beta1.AnnotationLifecycle] = "preDelete: {labelsHandler: {hook: there}, finalizersHandler: [example.com/hook]}"
		p.Annotations[policyv1beta1.AnnotationDrainFirst] = "10m"
		p.Labels, p.Finalizers = map[string]string{"hook": "there"}, []string{"example.com/hook"}
	})
	m.start(t, &controller.Attendant{
		Client: m.GetClient(), Live: m.GetAPIReader(), Evictor: &evict.Evictor{Client: m.GetClient()}, Kinds: workloads.NewRegistry(), Clock: now,
	})
	inService(t, changed, budget.ReasonInService)
	inService(t, leaves, budget.ReasonInService)

	turn(t, changed, budget.ReasonChange, now.Now().Add(-20*time.Second))
	env.Patch(t, changed.DeepCopy(), `{"spec":{"containers":[{"name":"main","image":"example.com/next"}]}}`)
	started(t, changed, now.Now().Add(-time.Hour)) // the kubelet has not stopped the container
	if c := budget.Service(changed); c.Status != corev1.ConditionFalse {
		t.Errorf("before the container is stopped: %+v", c)
	}
	started(t, changed, now.Now().Add(-5*time.Second))
	inService(t, changed, budget.ReasonChanged)
	turn(t, changed, budget.ReasonChange, now.Now())
	env.Patch(t, changed.DeepCopy(), `{"spec":{"containers":[{"name":"main","image":"example.com/other"}]}}`)
	env.Read(t, client.ObjectKeyFromObject(changed), changed)
	env.ChangeStatus(t, changed, func() {
		changed.Status.ObservedGeneration = changed.Generation
		changed.Status.Conditions = append(changed.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, LastTransitionTime: metav1.NewTime(now.Now()),
		})
	})
	inService(t, changed, budget.ReasonChanged)

	turn(t, leaves, budget.ReasonFollows, now.Now().Add(-15*time.Second))
	env.Patch(t, leaves.DeepCopy(), `{"metadata":{"labels":{"hook":null}}}`)
	env.Read(t, client.ObjectKeyFromObject(leaves), leaves)
	if leaves.DeletionTimestamp != nil {
		t.Error("the finalizer of the handler is there, and the pod goes")
	}
	env.Patch(t, leaves.DeepCopy(), `{"metadata":{"finalizers":null}}`)
	testenv.Eventually(t, func() error {
		var pod corev1.Pod
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(leaves), &pod); !apierrors.IsNotFound(err) {
			return fmt.Errorf("pod %s is there: %w", leaves.Name, err)
		}
		return nil
	})
}

// A workload with thousands of pods that are out of service is woken once a second. After a scale-out it wants them all.
func TestAWorkloadIsWokenOnceForAllItsPods(t *testing.T) {
	m, now := newManager(t), testingclock.NewFakePassiveClock(time.Now())
	observed, traffic := env.Observe(t)
	set := testenv.AStatefulSet("web", 0).In(env.Namespace(t))
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "web"}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32)}}
	owner.Spec.Selector, owner.Spec.Template = set.Spec.Selector, set.Spec.Template
	env.Create(t, owner)
	counts := func() {
		t.Helper()
		owner.Status.Replicas, owner.Status.ObservedGeneration = 8, owner.Generation
		if err := env.Client.Status().Update(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	counts()
	replicated := func(pod *corev1.Pod) {
		pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].UID = "ReplicaSet", owner.UID
	}
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

	env.Change(t, owner, func() { owner.Spec.Replicas = new(int32(8)) })
	counts()
	now.SetTime(now.Now().Add(2 * time.Second))
	turn(t, pods[0], budget.ReasonFollows, now.Now().Add(-15*time.Second))
	inService(t, pods[0], budget.ReasonUnasked)
}
