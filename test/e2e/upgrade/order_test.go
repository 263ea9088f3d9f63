package upgrade_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/limpet-io/limpet/test/e2e/upgrade"
)

// TestOrdersCoverEveryStep checks that the orders differ, and that all orders, up and down, change each part in each
// state of the others.
func TestOrdersCoverEveryStep(t *testing.T) {
	orders, steps := map[string]bool{}, map[string]bool{}
	for _, o := range upgrade.Orders() {
		orders[o.String()] = true
		for _, up := range []bool{true, false} {
			for _, s := range upgrade.Steps(o, up) {
				if slices.Contains(s.New, s.Part) != up {
					t.Errorf("%s, %s: new are %v", o, s, s.New)
				}
				state := slices.Sorted(slices.Values(s.New))
				steps[fmt.Sprint(s, state)] = true
			}
		}
	}
	if len(orders) != 6 || len(steps) != 3*2*4 {
		t.Errorf("%d orders with %d different steps, want 6 and 24", len(orders), len(steps))
	}
}

// TestManifestsAreSplit checks to which part an object belongs.
func TestManifestsAreSplit(t *testing.T) {
	const crd = "kind: CustomResourceDefinition\nmetadata:\n  name: limpet-agent\nspec: {}"
	const agent = "kind: DaemonSet\nmetadata:\n  labels:\n    name: x\n  name: limpet-agent\nspec: {}"
	const other = "kind: Namespace\nmetadata:\n  name: limpet-system"
	got := upgrade.Split(crd + "\n---\n" + agent + "\n---\n" + other)
	want := map[upgrade.Part]string{upgrade.CRDs: crd, upgrade.Agent: agent, upgrade.Controller: other}
	for part, object := range want {
		if got[part] != object+"\n---\n" {
			t.Errorf("%s: %q", part, got[part])
		}
	}
}
