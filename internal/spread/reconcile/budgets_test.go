package reconcile_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/books"
	controller "github.com/limpet-io/limpet/internal/spread/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// strictBudget is a budget of which no pod of the app may be unavailable, also none that is not Ready.
func strictBudget(t *testing.T, a *app, name string) *policyv1beta1.PodUnavailableBudget {
	t.Helper()
	pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{
		Namespace: a.Namespace, Name: name, Annotations: map[string]string{policyv1beta1.AnnotationProtectUnready: "true"},
	}}
	pub.Spec.Selector, pub.Spec.MaxUnavailable = a.Spec.Selector, new(intstr.FromInt32(0))
	env.Create(t, pub)
	return pub
}

// refusedFor waits until budgets have refused a deletion by Limpet for a reason.
func refusedFor(t *testing.T, registry *prometheus.Registry, reason budget.Reason) {
	t.Helper()
	want := map[string]string{"vector": string(budget.Limpet), "verdict": string(budget.Refused), "reason": string(reason)}
	testenv.Eventually(t, func() error {
		families, err := registry.Gather()
		for _, family := range families {
			if family.GetName() != "limpet_budget_decisions_total" {
				continue
			}
			for _, m := range family.GetMetric() {
				same := 0
				for _, label := range m.GetLabel() {
					if want[label.GetName()] == label.GetValue() {
						same++
					}
				}
				if same == len(want) && m.GetCounter().GetValue() > 0 {
					return err
				}
			}
		}
		return fmt.Errorf("no refusal for reason %s, %w", reason, err)
	})
}

// stays fails if a pod was deleted.
func stays(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	now := &corev1.Pod{}
	env.Read(t, client.ObjectKeyFromObject(pod), now)
	if now.UID != pod.UID || now.DeletionTimestamp != nil {
		t.Errorf("pod %s was deleted although a budget refuses", pod.Name)
	}
}

// entered fails unless a book has the pod as one that Limpet takes away.
func entered(t *testing.T, namespace string, pod types.UID) {
	t.Helper()
	var list limpetv1alpha1.DisruptionBookList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for _, book := range list.Items {
		for _, e := range book.Entries {
			if e.UID == pod && e.Vector == string(budget.Limpet) {
				return
			}
		}
	}
	t.Errorf("no book of %+v has pod %s", list.Items, pod)
}

// A pod that would come home stays while its budget refuses. It comes home when the budget allows it.
func TestAPodComesHomeUnderItsBudget(t *testing.T) {
	a := anApp(t, 1)
	node(t, "x")
	away := a.pod(t, "away", node(t, "y"), match, matched("y"), home, "x")
	pub := strictBudget(t, a, "web")
	registry := start(t)
	ws := spreadOf(t, a, "2", adaptive(300, appsv1beta1.ReturnWhenRecovered), "x", "y")
	refusedFor(t, registry, budget.ReasonExhausted)
	stays(t, away)
	shows(t, ws, "x:0/2/Sufficient y:1/-1/Sufficient Placed")
	if n := env.CountEvents(t, ws, controller.ReasonReturned); n > 0 {
		t.Errorf("%d events tell of a return that was refused", n)
	}
	env.Patch(t, pub, `{"spec":{"maxUnavailable":1}}`)
	isGone(t, away)
	entered(t, a.Namespace, away.UID)
	env.Told(t, ws, controller.ReasonReturned, "pod away is created again in its own subset")
}

// A pod that was never started goes though no unit is left, also under limpet.dev/protect-unready. More
// budgets than can be judged together keep the pod.
func TestAnUnschedulablePodMovesUnderItsBudgets(t *testing.T) {
	a := anApp(t, 2)
	a.pod(t, "settled", node(t, "y"), match, matched("y"))
	waits := a.pod(t, "waits", "", match, matched("x"))
	strictBudget(t, a, "web")
	var others []*policyv1beta1.PodUnavailableBudget
	for i := range books.MostBudgets {
		others = append(others, strictBudget(t, a, fmt.Sprint("other-", i)))
	}
	waits.Status.Phase = corev1.PodPending // as the API server writes it
	refuse(t, waits)
	registry := start(t)
	ws := spreadOf(t, a, "2", adaptive(300, appsv1beta1.ReturnNever), "x", "y")
	shows(t, ws, "x:1/1/PodUnschedulable y:1/-1/Sufficient Placed")
	refusedFor(t, registry, budget.ReasonFull)
	stays(t, waits)
	if n := env.CountEvents(t, ws, controller.ReasonRescheduled); n > 0 {
		t.Errorf("%d events tell of a move that was refused", n)
	}
	for _, pub := range others {
		env.Remove(t, pub)
	}
	isGone(t, waits)
	entered(t, a.Namespace, waits.UID)
	env.Told(t, ws, controller.ReasonRescheduled, "pod waits is created again")
}
