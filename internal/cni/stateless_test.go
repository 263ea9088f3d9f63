package cni_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/cni"
)

// TestOnlyADDMakesAState runs the other verbs on a node without a state: in a directory that does
// not exist, and in a directory of another plugin.
func TestOnlyADDMakesAState(t *testing.T) {
	stranger := lostSandbox("web", true)
	for name, verb := range map[string]func(*testNode) error{
		"DEL":                 func(w *testNode) error { return w.del(stranger) },
		"DEL of an older pod": func(w *testNode) error { return w.del(lostSandbox("old", false)) },
		"GC without a list":   func(w *testNode) error { return w.plugin.Funcs().GC(w.args(stranger, nil)) },
		"GC with an empty one": func(w *testNode) error {
			return w.plugin.Funcs().GC(w.args(stranger, map[string]any{"cni.dev/valid-attachments": nil}))
		},
		"STATUS": func(w *testNode) error { return w.plugin.Funcs().Status(w.args(stranger, nil)) },
		"CHECK": func(w *testNode) error {
			if err := w.plugin.Funcs().Check(w.args(stranger, nil)); codeOf(err) != cni.CodeUnknown {
				return errors.Join(errors.New("want code 103"), err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, there := range []bool{false, true} {
				w := newTestNode(t)
				if there {
					w.hostLocal("10.1.0.4", "c-old\r\neth0")
				}
				if err := verb(w); err != nil {
					t.Fatal(err)
				}
				left, err := filepath.Glob(filepath.Join(w.dir, "limpet.*"))
				if err != nil || len(left) > 0 {
					t.Errorf("left %v, %v", left, err)
				}
				if _, err := os.Stat(w.dir); !there && !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the directory of the state: %v", err)
				}
			}
		})
	}
}

// TestEndsWithoutAState ends pods on a node without a state: an old pod's file is removed, and
// an address to reserve is reserved.
func TestEndsWithoutAState(t *testing.T) {
	for name, tc := range map[string]struct {
		asks bool
		keep []string
	}{
		"nothing to keep":       {asks: false},
		"an address to reserve": {asks: true, keep: []string{"10.1.0.4"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.hostLocal("10.1.0.4", "c-web\r\neth0")
			if err := w.del(lostSandbox("web", tc.asks)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"lock"}, w.hostLocalFiles()); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			var kept []string
			for _, r := range w.read().Reserved {
				kept = append(kept, r.Addresses[0].String())
			}
			if diff := cmp.Diff(tc.keep, kept); diff != "" {
				t.Errorf("reserved (-want +got):\n%s", diff)
			}
		})
	}
}
