package guard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// drained makes a Ready pod that is out of service for a minute before it goes. A client library would sleep through the
// last thirty seconds, and then repeat the request.
func drained(t *testing.T, set testenv.StatefulSet, ordinal int, edits ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := aPod(set, ordinal)
	pod.Annotations = map[string]string{policyv1beta1.AnnotationDrainFirst: "1m"}
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: policyv1beta1.ConditionInService}}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: policyv1beta1.ConditionInService, Status: corev1.ConditionTrue})
	for _, edit := range edits {
		edit(pod)
	}
	put(t, pod)
	return pod
}

// asked makes a namespace without budgets, and a StatefulSet with pods that are out of service before they go.
func asked(t *testing.T, pods int) (string, []*corev1.Pod) {
	t.Helper()
	ns := env.Namespace(t, policyv1beta1.LabelBudgets, policyv1beta1.LabelBudgetsAsked)
	set := testenv.AStatefulSet("web", int32(pods)).In(ns)
	put(t, set.StatefulSet)
	var all []*corev1.Pod
	for i := range pods {
		all = append(all, drained(t, set, i))
	}
	return ns, all
}

// heldFor fails unless an error says that a pod goes later.
func heldFor(t *testing.T, err error, says string) {
	t.Helper()
	if !apierrors.IsTooManyRequests(err) || !hasCause(err, "OutOfServiceFirst") || !strings.Contains(err.Error(), says) {
		t.Fatalf("answer %v, want 429 with %q", err, says)
	}
}

// service reads the condition of a pod.
func service(t *testing.T, pod *corev1.Pod) corev1.PodCondition {
	t.Helper()
	var now corev1.Pod
	env.Read(t, client.ObjectKeyFromObject(pod), &now)
	c := budget.Service(&now)
	if c == nil {
		t.Fatalf("pod %s has no condition", pod.Name)
	}
	return *c
}

func gone(t *testing.T, pod *corev1.Pod) bool {
	t.Helper()
	var now corev1.Pod
	err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), &now)
	return apierrors.IsNotFound(err) || err == nil && now.DeletionTimestamp != nil
}

// pass moves the clock of the guard.
func pass(d time.Duration) { ahead.by.Add(int64(d)) }

func TestAPodIsTakenOutOfServiceBeforeItGoes(t *testing.T) {
	serve(t)
	for _, covered := range []bool{false, true} {
		ns, pods := asked(t, 3)
		if covered {
			label(t, ns, policyv1beta1.LabelBudgetsOpen)
			put(t, aBudget(ns, "web", "web", intstr.FromInt32(2)))
		}
		evicts := func() error { return evictAs(t.Context(), env.Client, pods[0]) }
		deletes := func() error { return deleteAs(t.Context(), env.Client, pods[1]) }
		workload := as(t, "system:serviceaccount:kube-system:statefulset-controller")
		for i, requests := range []func() error{evicts, deletes} {
			heldFor(t, requests(), "may go in")
			if c := service(t, pods[i]); c.Status != corev1.ConditionFalse || c.Reason != budget.ReasonRepeat {
				t.Errorf("condition %+v", c)
			}
			pass(20 * time.Second)
			heldFor(t, requests(), "is out of service and may go in")
			pass(42 * time.Second)
			if err := requests(); err != nil || !gone(t, pods[i]) {
				t.Errorf("after the time: %v", err)
			}
		}
		if covered { // two pods are away
			refusedBy(t, deleteAs(t.Context(), workload, pods[2]), "web")
			if c := service(t, pods[2]); c.Status != corev1.ConditionTrue {
				t.Errorf("a pod that its budget keeps: %+v", c)
			}
			continue
		}
		heldFor(t, deleteAs(t.Context(), workload, pods[2]), "goes in")
		if c := service(t, pods[2]); c.Reason != budget.ReasonFollows {
			t.Errorf("the controller of a workload asks once: %+v", c)
		}
	}
}

// Requests that must not be delayed are answered at once.
func TestWhoIsNotHeld(t *testing.T) {
	serve(t)
	ns, pods := asked(t, 4)
	passes(t, evictAs(t.Context(), env.Client, pods[0], metav1.DryRunAll))
	passes(t, deleteAs(t.Context(), client.NewDryRunClient(env.Client), pods[0]))
	if c := service(t, pods[0]); c.Status != corev1.ConditionTrue {
		t.Errorf("after dry runs: %+v", c)
	}
	if err := inTime(t.Context(), func() error { return plainly(deletePod)(t, pods[0]) }); err != nil {
		t.Errorf("without a grace period: %v", err)
	}
	if err := inTime(t.Context(), func() error { return plainly(evict)(t, pods[1]) }); err != nil {
		t.Errorf("an eviction without a grace period: %v", err)
	}
	unready := pods[2].DeepCopy()
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	kubelet(t, unready)
	if err := evictAs(t.Context(), env.Client, pods[2]); err != nil {
		t.Errorf("a pod that is not Ready: %v", err)
	}
	var object corev1.Namespace
	env.Read(t, client.ObjectKey{Name: ns}, &object)
	if err := env.Client.Delete(t.Context(), &object); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		return as(t, "system:serviceaccount:kube-system:namespace-controller").Delete(t.Context(), pods[3].DeepCopy())
	})
}

// A PodDisruptionBudget is not asked while a pod is out of service. The book keeps the next pod.
func TestEvictionsUnderAPodDisruptionBudgetAreCounted(t *testing.T) {
	serve(t)
	ns, pods := asked(t, 3)
	set := testenv.AStatefulSet("web", 3).In(ns)
	aPDB(t, ns, "native", 1)
	older := aPod(set, 3) // created before the annotation
	put(t, older)
	heldFor(t, evictAs(t.Context(), env.Client, pods[0]), "may go in")
	refusedBy(t, evictAs(t.Context(), env.Client, older), "native")
	refusedBy(t, evictAs(t.Context(), env.Client, pods[1]), "native")
	if c := service(t, pods[1]); c.Status != corev1.ConditionTrue {
		t.Errorf("the second pod: %+v", c)
	}
}

// A PodDisruptionBudget that needs no healthy pod would refuse the pod once it is not Ready.
func TestALastPodGoesAtOnce(t *testing.T) {
	serve(t)
	ns, pods := asked(t, 1)
	aPDB(t, ns, "native", 3)
	if err := evictAs(t.Context(), env.Client, pods[0]); err != nil || !gone(t, pods[0]) {
		t.Errorf("answer %v", err)
	}
}

// A request that is not delayed waits for no read: those of a teardown or of the scheduler must pass whatever the API
// server answers.
func TestWhatIsNotHeldReadsNothing(t *testing.T) {
	serve(t)
	observed, traffic := env.Observe(t)
	handler, cached := replicaWith(t, cluster.CacheOptions(needs()...), observed)
	_, pods := asked(t, 1)
	known(t, cached, pods[0])
	answer := handler.Handle(t.Context(), deletionBy(t, "system:kube-scheduler", pods[0], false))
	if n := traffic.Count("/pods/"); !answer.Allowed || n > 0 {
		t.Errorf("allowed %t after %d reads of pods, want none", answer.Allowed, n)
	}
}

// A review that no API server made takes a pod out of service by what the API has of the pod, and extends no wait.
func TestAForgedReviewExtendsNoWait(t *testing.T) {
	serve(t)
	_, pods := asked(t, 2)
	handler := handlerOf(serving, serving.GetAPIReader())
	heldFor(t, evictAs(t.Context(), env.Client, pods[0]), "may go in")
	before := service(t, pods[0])
	pass(20 * time.Second)
	ask := func(pod *corev1.Pod) { handler.Handle(t.Context(), deletionBy(t, "system:admin", pod, false)) }
	ask(pods[0]) // in service, it says
	if c := service(t, pods[0]); c != before {
		t.Errorf("condition %+v, was %+v", c, before)
	}
	ask(forged(pods[1], func(p *corev1.Pod) { p.UID = "other" }))
	var later corev1.Pod
	env.Read(t, client.ObjectKeyFromObject(pods[1]), &later)
	delete(later.Annotations, policyv1beta1.AnnotationDrainFirst)
	if err := env.Client.Update(t.Context(), &later); err != nil {
		t.Fatal(err)
	}
	ask(pods[1]) // with the annotation
	if c := service(t, pods[1]); c.Status != corev1.ConditionTrue {
		t.Errorf("condition %+v of a pod that asks for no wait", c)
	}
}

// A pod that is rebuilt while it is taken out of service has a successor, about which no request asks.
func TestTheSuccessorOfAPodIsNotLetGo(t *testing.T) {
	serve(t)
	ns, pods := asked(t, 1)
	observed, traffic := env.Observe(t)
	handler := handlerOf(serving, serving.GetAPIReader())
	handler.Status = observed.Status()
	release := traffic.Hold(t, "/web-0/status")
	answer := make(chan admission.Response, 1)
	request := eviction(pods[0])
	go func() { answer <- handler.Handle(t.Context(), request) }()
	testenv.Eventually(t, func() error {
		if traffic.Count("/web-0/status") == 0 {
			return fmt.Errorf("the pod is not taken out of service yet")
		}
		return nil
	})
	if err := env.Client.Delete(t.Context(), pods[0].DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	next := drained(t, testenv.AStatefulSet("web", 1).In(ns), 0)
	release()
	if a := <-answer; a.Allowed {
		t.Errorf("answer %+v", a)
	}
	if c := service(t, next); c.Status != corev1.ConditionTrue {
		t.Errorf("condition of the successor: %+v", c)
	}
}
