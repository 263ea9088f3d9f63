package budget_test

import (
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

func TestWakeTheLongestWaitingFirst(t *testing.T) {
	const controller = "system:serviceaccount:kube-system:statefulset-controller"
	waits := func(uid, by string, silent time.Duration, vector ...budget.Vector) ledger.Waiting {
		w := budget.Input{Pod: budget.Pod{UID: uid, Name: uid}, By: by, Vector: append(vector, budget.Delete)[0], Now: now.Add(-silent)}.Waiting()
		w.Since = now.Add(-time.Hour)
		return w
	}
	two := []ledger.Waiting{waits("a", controller, time.Minute), waits("b", controller, 2*time.Minute)}
	for name, tc := range map[string]struct {
		waiting []ledger.Waiting
		units   int
		woken   time.Duration // how long ago a was woken; 0 for never
		want    []string
	}{
		"no unit":                       {two, 0, 0, nil},
		"one unit":                      {two, 1, 0, []string{"a"}},
		"two units":                     {two, 2, 0, []string{"a", "b"}},
		"a drain, which asks again":     {[]ledger.Waiting{waits("a", "bob", time.Minute, budget.Evict)}, 1, 0, nil},
		"a person who deletes pods":     {[]ledger.Waiting{waits("a", "bob", time.Minute)}, 1, 0, nil},
		"a drain of a service account":  {[]ledger.Waiting{waits("c", "system:serviceaccount:kube-system:cluster-autoscaler", time.Minute, budget.Evict), two[0]}, 1, 0, []string{"a"}},
		"an eviction by a controller":   {[]ledger.Waiting{waits("a", controller, time.Minute, budget.Evict)}, 1, 0, nil},
		"a controller of OpenKruise":    {[]ledger.Waiting{waits("a", "system:serviceaccount:kruise-system:kruise-manager", time.Minute, budget.ScaleIn)}, 1, 0, []string{"a"}},
		"the shared user":               {[]ledger.Waiting{waits("a", "system:kube-controller-manager", time.Minute)}, 1, 0, []string{"a"}},
		"the taint manager":             {[]ledger.Waiting{waits("a", "system:serviceaccount:kube-system:node-controller", time.Minute, budget.AdminTaint)}, 1, 0, nil},
		"the garbage collector":         {[]ledger.Waiting{waits("a", "system:serviceaccount:kube-system:generic-garbage-collector", time.Minute)}, 1, 0, nil},
		"a descheduler that deletes":    {[]ledger.Waiting{waits("a", "system:serviceaccount:kube-system:descheduler", time.Minute)}, 1, 0, nil},
		"a controller that just asked":  {[]ledger.Waiting{waits("a", controller, 9*time.Second)}, 1, 0, nil},
		"woken, and silent since":       {two, 1, 30 * time.Second, []string{"b"}},
		"woken long ago":                {two, 1, 5 * time.Minute, []string{"a"}},
		"woken, and refused once more":  {[]ledger.Waiting{waits("a", controller, 20*time.Second)}, 1, 30 * time.Second, []string{"a"}},
		"a workload that is none of us": {[]ledger.Waiting{waits("x", controller, time.Minute)}, 1, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, w := range budget.Wake(tc.waiting, tc.units, now, func(uid string) (time.Time, bool) {
				if uid == "a" && tc.woken > 0 {
					return now.Add(-tc.woken), true
				}
				return time.Time{}, uid != "x"
			}) {
				got = append(got, w.UID)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("wakes %v, want %v", got, tc.want)
			}
		})
	}
}
