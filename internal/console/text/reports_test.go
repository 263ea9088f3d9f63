package text_test

import (
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/text"
)

// TestWavesAndTheirLowerBound prints the waves of a plan.
func TestWavesAndTheirLowerBound(t *testing.T) {
	for want, r := range map[string]console.DrainReport{
		"": {Waves: 1, LeastWaves: 1},
		"3 waves; no order of the pods needs fewer than 2. Each waits until the pods of the wave before it are available again\n": {Waves: 3, LeastWaves: 2},
	} {
		var out strings.Builder
		text.Drain(&out, text.Style{}, r)
		if got := strings.TrimPrefix(out.String(), "0 return when their node is uncordoned, 0 move, 0 end, 0 cannot go\n"); got != want {
			t.Errorf("the plan says %q, want %q", got, want)
		}
	}
}

// TestWideAddsRowsAndNodes prints a plan and a status narrow and wide.
func TestWideAddsRowsAndNodes(t *testing.T) {
	plan := console.DrainReport{Pods: []console.Drained{
		{Namespace: "shop", Pod: "web-0", Node: "n1", Outcome: console.Moves, Wave: 1},
		{Namespace: "shop", Pod: "fixed", Node: "n1", Outcome: console.Stays},
	}}
	status := console.StatusReport{Agent: console.Program{Name: "limpet-agent", Ready: 5, Desired: 5, Nodes: []string{"n1", "n2", "n3", "n4", "n5"}}}
	for wide, want := range map[bool][2]bool{false: {false, true}, true: {true, false}} {
		var out strings.Builder
		text.Drain(&out, text.Style{Wide: wide}, plan)
		text.Status(&out, text.Style{Wide: wide}, status)
		if got := [2]bool{strings.Contains(out.String(), "shop/fixed"), strings.Contains(out.String(), "5 nodes")}; got != want || !strings.Contains(out.String(), "shop/web-0") {
			t.Errorf("wide %t: the pod that stays and the number of nodes are shown: %v, want %v\n%s", wide, got, want, out.String())
		}
	}
}
