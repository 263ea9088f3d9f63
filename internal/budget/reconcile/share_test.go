package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
)

// A tenant has ten thousand budgets, and an event of a pod triggers many of them. The leader's
// workers reconcile few of them in a second, each in its turn, and those of others at once.
func TestBudgetsOfOneNamespaceDelayNoOther(t *testing.T) {
	const many = 1000
	var memory controller.Memory
	hostile := func(i int) client.ObjectKey { return client.ObjectKey{Namespace: "hostile", Name: fmt.Sprint(i)} }
	quiet := client.ObjectKey{Namespace: "quiet", Name: "web"}
	atOnce, longest := 0, time.Duration(0)
	for i := range many {
		wait := memory.Turn(hostile(i), noon)
		if wait == 0 {
			atOnce++
		}
		longest = max(longest, wait)
	}
	if most := controller.ReconcilesAtOnce; atOnce != most {
		t.Errorf("%d budgets of a namespace are reconciled at once, want %d", atOnce, most)
	}
	if most := many * controller.ReconcileEach; longest == 0 || longest > most {
		t.Errorf("the last one waits for %s, want at most %s", longest, most)
	}
	if wait := memory.Turn(quiet, noon); wait != 0 {
		t.Errorf("a budget of another namespace waits for %s", wait)
	}
	last := hostile(many - 1)
	if wait := memory.Turn(last, noon.Add(time.Second)); wait != longest-time.Second {
		t.Errorf("a budget that is triggered again waits for %s, want that it keeps its turn", wait)
	}
	if wait := memory.Turn(last, noon.Add(longest)); wait != 0 {
		t.Errorf("in its turn a budget waits for %s", wait)
	}
}

// The leader follows the pods of each budget, and a tenant has as many budgets of the same pods
// as it likes. The rest is not followed until others are gone.
func TestFollowedPodsAreBounded(t *testing.T) {
	const pods = 10_000
	var memory controller.Memory
	followed, inAll := 0, 0
	for space := range 2 * controller.MostSightsInAll / controller.MostSights {
		inSpace := 0
		for i := range 2 * controller.MostSights / pods {
			inSpace += memory.Follow(client.ObjectKey{Namespace: fmt.Sprint(space), Name: fmt.Sprint(i)}, pods)
		}
		if inSpace > controller.MostSights {
			t.Errorf("%d pods of a namespace are followed, want at most %d", inSpace, controller.MostSights)
		}
		followed, inAll = max(followed, inSpace), inAll+inSpace
	}
	if followed != controller.MostSights || inAll != controller.MostSightsInAll {
		t.Errorf("%d pods of a namespace are followed, and %d of all; want %d and %d",
			followed, inAll, controller.MostSights, controller.MostSightsInAll)
	}
	late := client.ObjectKey{Namespace: "late", Name: "web"}
	if n := memory.Follow(late, 3); n != 0 {
		t.Errorf("%d further pods are followed", n)
	}
	memory.Forget(client.ObjectKey{Namespace: "0", Name: "0"})
	if n := memory.Follow(late, 3); n != 3 {
		t.Errorf("%d pods are followed after others are gone, want 3", n)
	}
	if n := memory.Follow(late, 2); n != 2 {
		t.Errorf("%d pods are followed, want 2", n)
	}
}
