package cni_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestALostStateKnowsTheNetworksOfMultus loses the state of a node where Multus keeps the results. It passes no
// annotations, but cni-args, also with DEL. The pod leaves its reservation.
func TestALostStateKnowsTheNetworksOfMultus(t *testing.T) {
	w, s, other := newTestNode(t), lostSandbox("web", false), t.TempDir()
	s.ifName = "net1"
	w.plugin.OtherResultsDirs, w.recovery.Node.OtherResultsDirs = []string{other}, []string{other}
	asks := map[string]any{"runtimeConfig": map[string]any{}, "args": map[string]any{"cni": map[string]any{reservation.RetainAnnotation: "10"}}}
	w.start(s)
	had, err := w.addUncached(s, asks)
	if err != nil {
		t.Fatal(err)
	}
	w.cacheWhole(s, had)
	if err := os.Rename(w.cacheFile(s), filepath.Join(other, filepath.Base(w.cacheFile(s)))); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
	w.mustAdd(lostSandbox("new", false))
	if err := w.run(w.plugin.Funcs().Del, w.args(s, asks)); err != nil {
		t.Fatal(err)
	}
	if r := w.read().Reserved[s.owner()]; !slices.Equal(r.Addresses, had) || r.Deadline.Left(w.now) != 10*time.Minute {
		t.Errorf("reserved %+v, want %v for 10 minutes", r, had)
	}
}
