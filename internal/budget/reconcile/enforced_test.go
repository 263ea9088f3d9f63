package reconcile_test

import (
	"fmt"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const enforced = policyv1beta1.ConditionEnforced

// The condition tells what is missing, and is True only after the guard itself has answered.
func TestEnforcedTellsWhatIsMissing(t *testing.T) {
	m := newManager(t)
	m.guarding(t)
	m.start(t, m.reconciler())
	pub, _, _ := protected(t)
	has(t, pub, enforced, metav1.ConditionFalse, "NamespaceNotLabelled", policyv1beta1.LabelBudgets)

	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pub.Namespace}}
	env.Patch(t, ns, `{"metadata":{"labels":{"limpet.dev/budgets":"open"}}}`)
	has(t, pub, enforced, metav1.ConditionTrue, "Enforced", "")
	if n := env.CountEvents(t, pub, "NotCalled"); n > 0 {
		t.Errorf("%d events NotCalled, want none: the API server may learn late of a label", n)
	}
}

// A guard that is not asked is not enforced, although its configuration looks right.
func TestAGuardThatIsNotAsked(t *testing.T) {
	m := newManager(t)
	w := m.guarding(t)
	env.Change(t, w, func() {
		for i := range w.Webhooks { // with the failure policy Ignore, every request passes
			w.Webhooks[i].ClientConfig.CABundle = env.Config.CAData
		}
	})
	m.start(t, m.reconciler(), m.labeler(clock.RealClock{}))
	pub, _, _ := protected(t)
	has(t, pub, enforced, metav1.ConditionFalse, "NotCalled", "looked for the pod")
	env.Told(t, pub, "NotCalled", "")

	of := aBudget(env.Namespace(t), "tenant", intstr.FromInt32(1))
	env.Create(t, testenv.APod("limpet-guard-probe").In(of.Namespace).Ready().Pod, of)
	has(t, of, enforced, metav1.ConditionFalse, "NotCalled", "could have been evicted")
}

// Requests that no rule names are missing.
func TestLacks(t *testing.T) {
	all := testenv.ReadWebhooks(t).Validating.Webhooks
	for i := range all {
		all[i].ClientConfig.CABundle = []byte("authority")
	}
	edited := func(edit func(*admissionv1.ValidatingWebhook)) []admissionv1.ValidatingWebhook {
		webhooks := slices.Clone(all)
		for i := range webhooks {
			webhooks[i] = *webhooks[i].DeepCopy()
			edit(&webhooks[i])
		}
		return webhooks
	}
	const allLack = "no webhook with a caBundle asks about DELETE of pods, CREATE of pods/eviction, UPDATE of pods, UPDATE of pods/resize, UPDATE of pods/status"
	cases := map[string]struct {
		webhooks []admissionv1.ValidatingWebhook
		label    string
		want     string
	}{
		"as deploy/controller has them, open":   {all, "open", ""},
		"as deploy/controller has them, closed": {all, "closed", ""},
		"another label":                         {all, "no", allLack},
		"without an authority":                  {edited(func(w *admissionv1.ValidatingWebhook) { w.ClientConfig.CABundle = nil }), "open", allLack},
		"without resize": {edited(func(w *admissionv1.ValidatingWebhook) {
			for i := range w.Rules {
				w.Rules[i].Resources = slices.DeleteFunc(slices.Clone(w.Rules[i].Resources), func(r string) bool { return r == "pods/resize" })
			}
		}), "open", "no webhook with a caBundle asks about UPDATE of pods/resize"},
		"another path": {edited(func(w *admissionv1.ValidatingWebhook) { w.ClientConfig.Service.Path = new("/other") }), "closed", allLack},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{policyv1beta1.LabelBudgets: tc.label, "kubernetes.io/metadata.name": "shop"}
			if got := controller.Lacks(tc.webhooks, labels); got != tc.want {
				t.Errorf("lacks %q, want %q", got, tc.want)
			}
		})
	}
}

// A refusal is told on the budget and on the pod, once a minute. A dry run is not told, and a
// pod that goes with the guard's leave is not lost.
func TestRefusalsAreTold(t *testing.T) {
	m := newManager(t)
	m.guarding(t)
	m.start(t, m.reconciler(), m.labeler(clock.RealClock{}))
	pub, _, all := protected(t)
	has(t, pub, enforced, metav1.ConditionTrue, "Enforced", "")
	evict := func(pod *corev1.Pod, options ...client.SubResourceCreateOption) error {
		return env.Client.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{}, options...)
	}
	if err := evict(all[0]); err != nil {
		t.Fatalf("evict the first pod: %v", err)
	}
	if err := evict(all[1], client.DryRunAll); !apierrors.IsTooManyRequests(err) {
		t.Errorf("evict the second pod in a dry run: %v, want a refusal", err)
	}
	for range 3 {
		if err := evict(all[2]); !apierrors.IsTooManyRequests(err) {
			t.Errorf("evict the third pod: %v, want a refusal", err)
		}
	}
	tells(t, pub, "web-0", "evict", "Allowed", "UnitsLeft")
	tells(t, pub, "web-2", "evict", "Refused", "BudgetExhausted")
	env.Told(t, pub, "DisruptionRefused", "web-2")
	env.ToldOnce(t, all[2], "DisruptionRefused")
	if n := env.CountEvents(t, all[1], "DisruptionRefused"); n > 0 {
		t.Errorf("%d events tell of a dry run", n)
	}
	shows(t, pub, numbers{0, 2, 2, 3})
	if got := m.unguarded(t); len(got) > 0 {
		t.Errorf("losses %v, want none", got)
	}
	if got := m.gauge(t, "limpet_budget_longest_wait_seconds"); got <= 0 {
		t.Errorf("the longest wait is %v s, and a request waits", got)
	}
	if all, want := testenv.SeriesOf(t, m.metrics, "limpet_budget_troubles"), pub.Name+" Waits "+pub.Namespace; !slices.Contains(all, want) {
		t.Errorf("the metric names %q, want %q among them", all, want)
	}
	testenv.Eventually(t, func() error { // budgets of other tests are not enforced here
		var all policyv1beta1.PodUnavailableBudgetList
		if err := env.Client.List(t.Context(), &all); err != nil {
			return err
		}
		want := 0.0
		for _, b := range all.Items {
			if !meta.IsStatusConditionTrue(b.Status.Conditions, enforced) {
				want++
			}
		}
		if got := m.gauge(t, "limpet_budgets_not_enforced"); got != want {
			return fmt.Errorf("the metric has %v budgets that are not enforced, want %v", got, want)
		}
		return nil
	})
}

// Pods that no workload makes again go one after the other, because the size shrinks with each. The condition says so
// until the budget has a number for them.
func TestPodsWithoutAWorkloadAreNotEnforced(t *testing.T) {
	m := newManager(t)
	m.guarding(t)
	m.start(t, m.reconciler(), m.labeler(clock.RealClock{}))
	pub := aBudget(env.Namespace(t), "web", intstr.FromInt32(1))
	env.Create(t, pub)
	has(t, pub, enforced, metav1.ConditionTrue, "Enforced", "")
	bare := testenv.APod("bare").In(pub.Namespace).Ready().Pod
	bare.Labels = map[string]string{"app": "web"}
	env.Create(t, bare)
	has(t, pub, enforced, metav1.ConditionFalse, "PodsWithoutWorkload", "protectTotalReplicas")
	env.Change(t, pub, func() { pub.Spec.ProtectTotalReplicas = new(int32(1)) })
	has(t, pub, enforced, metav1.ConditionTrue, "Enforced", "")
}
