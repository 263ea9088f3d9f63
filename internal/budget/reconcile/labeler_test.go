package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// labelled waits for the label of a namespace, and whether the label is idle.
func labelled(t *testing.T, namespace, label string, idle bool) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var ns corev1.Namespace
		env.Read(t, client.ObjectKey{Name: namespace}, &ns)
		_, since := ns.Annotations[policyv1beta1.AnnotationIdleSince]
		if diff := cmp.Diff(label, ns.Labels[policyv1beta1.LabelBudgets]); diff != "" || since != idle {
			return fmt.Errorf("idle %t, label (-want +got):\n%s", since, diff)
		}
		return nil
	})
}

// The label follows the budgets of the namespace: at once upwards, after a minute downwards.
func TestTheLabelFollowsTheBudgets(t *testing.T) {
	m, now := newManager(t), testingclock.NewFakePassiveClock(time.Now())
	m.start(t, m.labeler(now))
	ns := env.Namespace(t)
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	open, closed := aBudget(ns, "open", intstr.FromInt32(1)), aBudget(ns, "closed", intstr.FromInt32(1))
	closed.Annotations = map[string]string{policyv1beta1.AnnotationFailurePolicy: "Closed"}

	env.Create(t, open) // as before Limpet came: no webhook has set the label
	labelled(t, ns, "open", false)
	env.Patch(t, object, `{"metadata":{"labels":{"limpet.dev/budgets":null}}}`)
	labelled(t, ns, "open", false)
	env.Create(t, closed)
	labelled(t, ns, "closed", false)
	env.Patch(t, object, `{"metadata":{"labels":{"limpet.dev/budgets":"ajar"}}}`)
	labelled(t, ns, "closed", false)

	env.Remove(t, closed)
	labelled(t, ns, "closed", true)
	now.SetTime(now.Now().Add(2 * time.Minute))
	wake := func() { // the labeler itself waits for a minute
		t.Helper()
		env.Annotate(t, object, policyv1beta1.AnnotationIdleSince, now.Now().Add(-90*time.Second).UTC().Format(time.RFC3339))
	}
	wake()
	labelled(t, ns, "open", false)
	env.Remove(t, open)
	labelled(t, ns, "open", true)
	now.SetTime(now.Now().Add(2 * time.Minute))
	wake()
	labelled(t, ns, "", false)
}

// A label that a person set stays.
func TestALabelOfAPersonStays(t *testing.T) {
	m := newManager(t)
	m.start(t, m.labeler(clock.RealClock{}))
	mine, other := env.Namespace(t), env.Namespace(t)
	env.Patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mine}}, `{"metadata":{"labels":{"limpet.dev/budgets":"closed"}}}`)
	former, pub := aBudget(mine, "web", intstr.FromInt32(1)), aBudget(other, "web", intstr.FromInt32(1))
	env.Create(t, former)
	env.Remove(t, former)
	env.Create(t, pub)
	labelled(t, other, "open", false)
	env.Remove(t, pub)
	labelled(t, other, "open", true) // the labeler has looked at both by now
	labelled(t, mine, "closed", false)
}

// Two PodDisruptionBudgets of one pod need the guard: Kubernetes answers 500.
func TestPodDisruptionBudgetsThatShareAPodNeedTheGuard(t *testing.T) {
	m := newManager(t)
	m.start(t, m.labeler(clock.RealClock{}))
	ns, alone := env.Namespace(t), env.Namespace(t)
	pod := testenv.APod("web").In(ns).Ready()
	pod.Labels = map[string]string{"app": "web", "tier": "front"}
	env.Create(t, pod.Pod)
	for _, namespace := range []string{ns, alone} {
		for name, labels := range map[string][]string{"app": {"app", "web"}, "tier": {"tier", "front"}} {
			p := pdb(name, labels...)
			p.Namespace = namespace
			p.Spec.MaxUnavailable = new(intstr.FromInt32(1))
			env.Create(t, &p)
		}
	}
	labelled(t, ns, "open", false)
	labelled(t, alone, "", false)
}
