package fair_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

func TestInTurns(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a1": "a1", "a1 a2 a3 b1 c1 c2": "a1 b1 c1 a2 c2 a3", "b1 a1 b2": "b1 a1 b2", "a1 a2": "a1 a2",
	} {
		var got string
		for i, one := range fair.InTurns(strings.Fields(text), func(one string) byte { return one[0] }) {
			if i > 0 {
				got += " "
			}
			got += one
		}
		if got != want {
			t.Errorf("%q in turns is %q, want %q", text, got, want)
		}
	}
}

func TestInTurnsLeavesItsArgument(t *testing.T) {
	all := []string{"a1", "a2", "b1"}
	before := slices.Clone(all)
	_ = fair.InTurns(all, func(one string) byte { return one[0] })
	if !slices.Equal(all, before) {
		t.Errorf("%v became %v", before, all)
	}
}
