package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// A tenant changes one of ten thousand PodDisruptionBudgets again and again. The leader's time is
// left to other namespaces.
func TestLooksAtALargeNamespaceArePaused(t *testing.T) {
	for name, tc := range map[string]struct {
		objects int
		want    time.Duration
	}{
		"a usual namespace":  {300, 0},
		"a large namespace":  {20_000, 2 * time.Second},
		"the longest search": {2_000_000, 30 * time.Second},
	} {
		if got := controller.RestAfter(tc.objects); got != tc.want {
			t.Errorf("%s rests for %v, want %v", name, got, tc.want)
		}
	}
}

// The labeler looks at a namespace with many PodDisruptionBudgets again when the pause has ended.
func TestALargeNamespaceIsLookedAtAgainLater(t *testing.T) {
	const many, pause = 600, 60 * time.Millisecond
	m, now, ns := newManager(t), testingclock.NewFakePassiveClock(time.Now()), env.Namespace(t)
	m.start(t)
	labeler := m.labeler(now)
	for i := range many {
		of := pdb(fmt.Sprint("pdb-", i), "app", fmt.Sprint(i))
		of.Namespace = ns
		env.Create(t, &of)
	}
	testenv.Eventually(t, func() error {
		var known policyv1.PodDisruptionBudgetList
		err := m.GetClient().List(t.Context(), &known, client.InNamespace(ns))
		if err == nil && len(known.Items) < many {
			err = fmt.Errorf("the cache shows %d PodDisruptionBudgets, want %d", len(known.Items), many)
		}
		return err
	})
	for _, want := range []time.Duration{30 * time.Second, pause, 30 * time.Second} {
		got, err := labeler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: ns}})
		if err != nil || got.RequeueAfter != want {
			t.Errorf("next look after %v, %v, want %v", got.RequeueAfter, err, want)
		}
		if want == pause {
			now.SetTime(now.Now().Add(pause))
		}
	}
}
