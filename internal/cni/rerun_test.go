package cni_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestARefusalDoesNotOutliveItsTransaction damages the file while an ADD waits for a predecessor that lives. The state is
// rebuilt, and the transaction runs again. By then the predecessor is gone: the ADD must not fail with the earlier answer
// and leave an address attached that no pod uses.
func TestARefusalDoesNotOutliveItsTransaction(t *testing.T) {
	w := newTestNode(t)
	before := lostSandbox("web", true)
	w.start(before)
	w.mustAdd(before)
	look, damaged := w.plugin.NetNS, false
	w.plugin.NetNS = func(path string) (reservation.NetNS, bool) {
		ns, found := look(path)
		if path == before.netns() && !damaged {
			damaged = true
			if err := overwrite(8192, 1<<20, 0)(filepath.Join(w.dir, "limpet.db")); err != nil {
				t.Fatal(err)
			}
			delete(w.netns, path)
		}
		return ns, found
	}
	after := next(before)
	w.start(after)
	if _, err := w.add(after); err != nil {
		t.Errorf("ADD: %v", err)
	}
	if !damaged || !strings.Contains(w.log.String(), "State was lost or damaged and is rebuilt") {
		t.Errorf("the state was not rebuilt in the ADD:\n%s", w.log.String())
	}
}
