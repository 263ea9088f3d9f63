package main

import (
	"errors"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/cniexec"
)

// TestEachDELDisplaces runs the load at the share with two processes in two short turns, and its check below the share.
func TestEachDELDisplaces(t *testing.T) {
	binaries, err := cniexec.BuildLimpet(t.Context(), "../../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := bench{binaries: binaries, dir: t.TempDir(), begin: time.Now()}
	r, err := runShare(t.Context(), b, load{used: shareLoad.used, processes: 2, turns: 2, turn: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.full.Sample) != 4 || len(r.empty.Sample) != 4 {
		t.Errorf("%d pairs at the share, %d in the empty pool, want 4 and 4", len(r.full.Sample), len(r.empty.Sample))
	}
	if _, err := runShare(t.Context(), b, load{used: 10, processes: 2, turns: 1, turn: 1}); !errors.Is(err, errNotDisplaced) {
		t.Errorf("the check below the share: %v, want %v", err, errNotDisplaced)
	}
}
