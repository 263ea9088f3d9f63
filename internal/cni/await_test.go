package cni_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestADDWaitsForItsPredecessor deletes a pod by force. While the ADD of its successor waits, things happen.
func TestADDWaitsForItsPredecessor(t *testing.T) {
	lateDEL := func(w *testNode, s sandbox) { _ = w.del(s) }
	for name, tc := range map[string]struct {
		ipam   map[string]any
		mode   string
		during []func(w *testNode, s sandbox) // of each wait; without a function the time passes
		code   uint
		same   bool
		waits  int
	}{
		"and its namespace goes":         {during: []func(*testNode, sandbox){func(w *testNode, s sandbox) { delete(w.netns, s.netns()) }}, same: true, waits: 1},
		"and its DEL comes":              {during: []func(*testNode, sandbox){lateDEL}, same: true, waits: 1},
		"and nothing happens":            {code: types.ErrTryAgainLater, waits: 1},
		"not at all, as configured":      {ipam: map[string]any{"addWait": "0s"}, code: types.ErrTryAgainLater},
		"no longer than predecessorWait": {ipam: map[string]any{"predecessorWait": "3s"}, waits: 1},
		"… unless the mode is required":  {ipam: map[string]any{"predecessorWait": "3s"}, mode: "required", code: types.ErrTryAgainLater, waits: 1},
		"and a reboot comes":             {during: []func(*testNode, sandbox){func(w *testNode, _ sandbox) { w.reboot(time.Second) }}, same: true, waits: 1},
		"and its own runtime gives up":   {during: []func(*testNode, sandbox){func(w *testNode, s sandbox) { delete(w.netns, s.netns()); w.orphan = true }}, code: types.ErrTryAgainLater, waits: 1},
		"and its own DEL comes":          {during: []func(*testNode, sandbox){func(w *testNode, s sandbox) { delete(w.netns, s.netns()); _ = w.del(next(s)) }}, code: types.ErrTryAgainLater, waits: 1},
		"and the DEL leaves the addresses": {during: []func(*testNode, sandbox){
			func(w *testNode, s sandbox) { w.stuckDel(s) }, func(w *testNode, s sandbox) { delete(w.netns, s.netns()) },
		}, same: true, waits: 2},
		"and the DEL leaves the addresses for good": {during: []func(*testNode, sandbox){func(w *testNode, s sandbox) { w.stuckDel(s) }}, code: types.ErrTryAgainLater, waits: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), lostSandbox("web", true)
			w.ipam = tc.ipam
			if tc.mode != "" {
				s.annotations[reservation.ModeAnnotation] = tc.mode
			}
			waits := 0
			w.plugin.Await = func(wait cni.Wait) {
				waits++
				if wait.Over() {
					t.Error("the wait is over before it begins")
				}
				if len(tc.during) < waits {
					w.pass(wait.AtMost)
					return
				}
				out := w.out.String()
				tc.during[waits-1](w, s)
				w.out.Reset()
				w.out.WriteString(out)
				if !wait.Over() {
					t.Error("the wait is not over")
				}
			}
			w.start(s)
			had := w.mustAdd(s)
			successor := next(s)
			w.start(successor)
			before := w.now
			again, err := w.add(successor)
			if codeOf(err) != tc.code || waits != tc.waits || tc.code == 0 && slices.Equal(again, had) != tc.same {
				t.Errorf("%v, %v after %d waits; had %v; want code %d, the same: %t, %d waits", again, err, waits, had, tc.code, tc.same, tc.waits)
			}
			if took := w.now.Since(before); took > netconf.DefaultAddWait {
				t.Errorf("waited %s", took)
			}
			if left, _ := filepath.Glob(filepath.Join(w.dir, ".pending", "*")); len(left) > 0 {
				t.Errorf("markers are left: %v", left)
			}
			if _, attached := w.read().Attached[successor.attachment()]; attached != (tc.code == 0) {
				t.Errorf("attached: %t", attached)
			}
		})
	}
}

// TestADDThatAsksForNothingDoesNotWait starts a pod beside its predecessor, and neither asks for a reservation (rule 10).
func TestADDThatAsksForNothingDoesNotWait(t *testing.T) {
	w, s := newTestNode(t), lostSandbox("web", true)
	s.annotations = map[string]string{}
	w.plugin.Await = func(cni.Wait) { t.Error("the ADD waits") }
	w.start(s)
	w.mustAdd(s)
	if _, err := w.add(next(s)); err != nil {
		t.Error(err)
	}
}

// TestWaitIsInTheLog reads the line of an ADD that waited.
func TestWaitIsInTheLog(t *testing.T) {
	w, s := newTestNode(t), lostSandbox("web", true)
	w.plugin.LogFile = filepath.Join(t.TempDir(), "ipam.log")
	w.plugin.Await = func(cni.Wait) { w.pass(1500 * time.Millisecond); delete(w.netns, s.netns()) }
	w.start(s)
	w.mustAdd(s)
	w.mustAdd(next(s))
	line, err := os.ReadFile(w.plugin.LogFile)
	if err != nil || !strings.Contains(string(line), `"reason":"same owner came back; waited 1.5s for the predecessor or limpet-agent"`) {
		t.Errorf("%s, %v", line, err)
	}
}
