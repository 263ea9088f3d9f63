package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestNamespacesTakeTurns writes ten thousand objects of one namespace beside two of another.
func TestNamespacesTakeTurns(t *testing.T) {
	in := func(ns string) change { return func(o *v1alpha1.IPReservation) { o.Namespace = ns } }
	var changes []plan.Change
	for i := range 10_000 {
		changes = append(changes, plan.Change{Verb: plan.Create, Object: mirrored(fmt.Sprint("many-", i), in("harm"))})
	}
	for _, name := range []string{"web-0", "web-1"} {
		changes = append(changes, plan.Change{Verb: plan.Delete, Object: mirrored(name, in("good"))})
	}
	changes = append(changes, plan.Change{Verb: plan.Update, Object: pool(1, metav1.ConditionTrue, now.Wall)})
	got := plan.InTurns(changes)
	if len(got) != len(changes) {
		t.Fatalf("%d changes, want all %d", len(got), len(changes))
	}
	var first []string
	for _, c := range got[:6] {
		first = append(first, c.Object.GetName())
	}
	want := []string{"n1.net", "many-0", "web-0", "many-1", "web-1", "many-2"}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("first changes (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(got, func(c plan.Change) bool { return c.Object.GetName() == "many-9999" }) {
		t.Error("the last object of the large namespace is not written")
	}
}

func TestCountsOnly(t *testing.T) {
	shown := pool(1, metav1.ConditionFalse, now.Wall)
	larger := pool(1, metav1.ConditionFalse, now.Wall).(*v1alpha1.NodeIPPool)
	larger.Status.Total = 9
	later := pool(2, metav1.ConditionFalse, now.Wall).(*v1alpha1.NodeIPPool)
	later.Status.ReservedUntil = &metav1.Time{Time: now.Wall}
	for name, tc := range map[string]struct {
		verb   plan.Verb
		shown  plan.Object
		object plan.Object
		want   bool
	}{
		"another number of pods":        {plan.Update, shown, pool(2, metav1.ConditionFalse, now.Wall), true},
		"no address is free any more":   {plan.Update, shown, pool(2, metav1.ConditionTrue, now.Wall.Add(time.Hour)), false},
		"and another end":               {plan.Update, shown, later, true},
		"another range":                 {plan.Update, shown, larger, false},
		"a new pool":                    {plan.Create, nil, pool(2, metav1.ConditionFalse, now.Wall), false},
		"a pool that is not wanted now": {plan.Delete, shown, shown, false},
		"a reservation":                 {plan.Update, mirrored("web-0"), mirrored("web-0", reservedState), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := plan.CountsOnly(plan.Change{Verb: tc.verb, Object: tc.object}, tc.shown); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestEndOnly(t *testing.T) {
	another := func(o *v1alpha1.IPReservation) { o.Status.PodUID = "another" }
	for name, tc := range map[string]struct {
		verb   plan.Verb
		shown  plan.Object
		object plan.Object
		want   bool
	}{
		"the pod has ended":                {plan.Update, mirrored("web-0"), mirrored("web-0", endsIn(time.Minute)), true},
		"another pod came and has ended":   {plan.Update, mirrored("web-0"), mirrored("web-0", another, endsIn(time.Minute)), false},
		"the node is another one":          {plan.Update, mirrored("web-0", ownedBy("a")), mirrored("web-0", ownedBy("b"), endsIn(time.Minute)), false},
		"another pod is attached":          {plan.Update, mirrored("web-0"), mirrored("web-0", another), false},
		"the end is another one":           {plan.Update, mirrored("web-0", endsIn(time.Minute)), mirrored("web-0", endsIn(time.Hour)), false},
		"nothing was shown":                {plan.Create, nil, mirrored("web-0", endsIn(time.Minute)), false},
		"the reservation is over already":  {plan.Delete, mirrored("web-0"), mirrored("web-0"), false},
		"another number of pods of a pool": {plan.Update, pool(1, metav1.ConditionFalse, now.Wall), pool(2, metav1.ConditionFalse, now.Wall), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := plan.EndOnly(plan.Change{Verb: tc.verb, Object: tc.object}, tc.shown); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
