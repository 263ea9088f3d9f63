package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/cniexec"
)

// TestEachADDReclaims runs the scenario without a free address twice. Its check fails where an ADD found a free one.
func TestEachADDReclaims(t *testing.T) {
	binaries, err := cniexec.BuildLimpet(t.Context(), "../../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := bench{binaries: binaries, dir: t.TempDir(), begin: time.Now()}
	s := scenarios[slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == allTaken })]
	s.rounds, s.memory = 2, false // TestOneProcessNeedsLittleMemory measures memory with a small parent
	r, err := s.run(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.limpet.pair()) != 2 || len(r.empty.pair()) != 2 {
		t.Errorf("%d pairs in the full range, %d in the empty one, want 2 and 2", len(r.limpet.pair()), len(r.empty.pair()))
	}
}

// TestAFreeAddressIsNoReclaim runs the check of that scenario beside free addresses.
func TestAFreeAddressIsNoReclaim(t *testing.T) {
	binaries, err := cniexec.BuildLimpet(t.Context(), "../../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := scenario{name: "free", used: 10, rounds: 2, repeat: 1, prepare: asking(reserved), steps: []step{add, end}, limpetOnly: true, check: eachReclaimed}
	if _, err := s.run(t.Context(), bench{binaries: binaries, dir: t.TempDir(), begin: time.Now()}); !errors.Is(err, errNoReclaim) {
		t.Errorf("the check of a range with free addresses: %v, want %v", err, errNoReclaim)
	}
}
