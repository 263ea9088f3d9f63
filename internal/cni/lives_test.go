package cni_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// The tests in this file take a pod from one life to the next with something in between.

// TestReboot powers the node off: network namespaces are gone without a DEL, and the next
// boot has others under the same paths and numbers.
func TestReboot(t *testing.T) {
	for name, ended := range map[string]func(w *testNode, s sandbox) error{
		"nothing has ended the pods":      func(*testNode, sandbox) error { return nil },
		"the runtime ends them afterward": func(w *testNode, s sandbox) error { return w.del(s) },
		"the runtime collects garbage": func(w *testNode, s sandbox) error {
			return w.plugin.Funcs().GC(w.args(s, map[string]any{"cni.dev/valid-attachments": nil}))
		},
	} {
		for _, asks := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, asks=%t", name, asks), func(t *testing.T) {
				w := newTestNode(t)
				s, other := lostSandbox("web", asks), lostSandbox("other", true)
				w.start(s)
				had := w.mustAdd(s)
				w.start(other)
				w.mustAdd(other)
				same := w.netns[s.netns()]
				w.reboot(3 * time.Minute)
				w.netns[s.netns()] = same
				if err := ended(w, s); err != nil {
					t.Fatal(err)
				}
				again := w.mustAdd(next(s))
				if asks && !slices.Equal(again, had) {
					t.Errorf("came back to %v, had %v", again, had)
				}
				w.mustDel(s) // late
				if got := w.read().Attached[next(s).attachment()].Addresses; !slices.Equal(got, again) {
					t.Errorf("after a late DEL %v are attached, want %v", got, again)
				}
			})
		}
	}
}

// TestClockSteps moves the wall clock between a DEL and the next ADD (rule 9).
func TestClockSteps(t *testing.T) {
	for name, tc := range map[string]struct {
		between func(w *testNode)
		kept    bool
	}{
		"a day forward frees nothing":                   {func(w *testNode) { w.step(24 * time.Hour) }, true},
		"a day back keeps nothing longer":               {func(w *testNode) { w.step(-24 * time.Hour); w.pass(10 * time.Minute) }, false},
		"a day back and nearly ten minutes":             {func(w *testNode) { w.step(-24 * time.Hour); w.pass(10*time.Minute - 1) }, true},
		"a reboot in time":                              {func(w *testNode) { w.reboot(9 * time.Minute) }, true},
		"a reboot that took too long":                   {func(w *testNode) { w.reboot(10 * time.Minute) }, false},
		"a reboot, and a clock that is a day behind":    {func(w *testNode) { w.reboot(time.Minute); w.step(-24 * time.Hour) }, true},
		"a reboot, and a clock that is a day ahead":     {func(w *testNode) { w.reboot(time.Minute); w.step(24 * time.Hour) }, false},
		"a reboot, a wrong clock that is put right":     {func(w *testNode) { w.step(-time.Hour); w.reboot(time.Minute); w.step(time.Hour) }, true},
		"a clock that was wrong and is put right later": {func(w *testNode) { w.step(-time.Hour); w.pass(time.Minute); w.step(time.Hour) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), lostSandbox("web", true)
			had := w.mustAdd(s)
			w.mustDel(s)
			tc.between(w)
			w.mustAdd(plain("other")) // which does not take what is reserved
			if again := w.mustAdd(next(s)); slices.Equal(again, had) != tc.kept {
				t.Errorf("had %v, got %v", had, again)
			}
		})
	}
}

// TestAnnotationChanges changes the retention request between two lives. At its end each life's
// own request counts, and at its beginning that of the life before.
func TestAnnotationChanges(t *testing.T) {
	retain := func(minutes string) map[string]string {
		return map[string]string{reservation.RetainAnnotation: minutes}
	}
	for name, tc := range map[string]struct {
		first, second map[string]string
		comesBack     bool
		kept          time.Duration
	}{
		"present, then absent":             {retain("10"), map[string]string{}, true, 0},
		"present, then not told":           {retain("10"), nil, true, 0},
		"absent, then present":             {map[string]string{}, retain("10"), false, 10 * time.Minute},
		"longer":                           {retain("10"), retain("30"), true, 30 * time.Minute},
		"shorter":                          {retain("10"), retain("5"), true, 5 * time.Minute},
		"present, then none of a number":   {retain("10"), retain("soon"), true, 0},
		"present, then more than may be":   {retain("10"), retain("100000"), true, 24 * time.Hour},
		"present, then with another's key": {retain("10"), map[string]string{"x": "y"}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), lostSandbox("web", false)
			s.annotations = tc.first
			had := w.mustAdd(s)
			w.mustDel(s)
			s = next(s)
			s.annotations = tc.second
			if again := w.mustAdd(s); slices.Equal(again, had) != tc.comesBack {
				t.Errorf("had %v, got %v", had, again)
			}
			w.mustDel(s)
			if r, found := w.read().Reserved[s.owner()]; found != (tc.kept > 0) || r.Deadline.For != tc.kept {
				t.Errorf("reserved for %s, want %s", r.Deadline.For, tc.kept)
			}
		})
	}
}

// TestForceDeletedPod rebuilds a pod whose earlier sandbox is still there.
func TestForceDeletedPod(t *testing.T) {
	for name, tc := range map[string]struct {
		mode, uid, nextUID string
		wantCode           uint
	}{
		"one that insists on its addresses waits on":   {mode: "required", uid: "a", nextUID: "b", wantCode: types.ErrTryAgainLater},
		"one that prefers them takes others":           {mode: "preferred", uid: "a", nextUID: "b"},
		"so does one that says nothing":                {uid: "a", nextUID: "b"},
		"so does one whose runtime tells no UID":       {},
		"so does another sandbox of the very same pod": {uid: "a", nextUID: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), lostSandbox("web", true)
			if tc.mode != "" {
				s.annotations[reservation.ModeAnnotation] = tc.mode
			}
			s.uid = tc.uid
			w.start(s)
			had := w.mustAdd(s)
			successor := next(s)
			successor.uid = tc.nextUID
			for waited := time.Duration(0); waited < predecessorWait; waited += 20 * time.Second {
				if _, err := w.add(successor); codeOf(err) != types.ErrTryAgainLater {
					t.Fatalf("after %s: %v, want code 11", waited, err)
				}
				w.pass(20 * time.Second)
			}
			addrs, err := w.add(successor)
			if codeOf(err) != tc.wantCode || slices.ContainsFunc(addrs, func(a netip.Addr) bool { return slices.Contains(had, a) }) {
				t.Errorf("after the wait: %v, %v; want code %d and none of %v", addrs, err, tc.wantCode, had)
			}
			w.mustDel(s)
			if err == nil { // the end of the old one is not the end of this, nor the beginning of a reservation
				if left := w.read(); len(left.Reserved) > 0 || !slices.Equal(left.Attached[successor.attachment()].Addresses, addrs) {
					t.Errorf("the DEL of the old one left %v", left)
				}
				return
			}
			if addrs := w.mustAdd(successor); !slices.Equal(addrs, had) {
				t.Errorf("came back to %v, had %v", addrs, had)
			}
		})
	}
}

// TestWithoutUID runs lives of a pod below a runtime that sends no UID.
func TestWithoutUID(t *testing.T) {
	w, s := newTestNode(t), lostSandbox("web", true)
	s.uid = ""
	w.start(s)
	had := w.mustAdd(s)
	successor := s
	successor.id = "c-next"
	for range 2 {
		if _, err := w.add(successor); codeOf(err) != types.ErrTryAgainLater {
			t.Fatalf("beside the living predecessor: %v, want code 11", err)
		}
	}
	w.mustDel(s)
	if again := w.mustAdd(successor); !slices.Equal(again, had) {
		t.Errorf("came back to %v, had %v", again, had)
	}
	before := w.read()
	w.mustDel(s)
	if after := w.read(); len(after.Reserved) > 0 || len(after.Attached) != len(before.Attached) {
		t.Errorf("a late DEL left %v", after)
	}
}

// TestAnotherNamespaceUnderThePath removes a sandbox without a DEL, and makes another one under
// the same path.
func TestAnotherNamespaceUnderThePath(t *testing.T) {
	w, s := newTestNode(t), lostSandbox("web", true)
	w.start(s)
	had := w.mustAdd(s)
	delete(w.netns, s.netns())
	w.start(s)
	if again := w.mustAdd(next(s)); !slices.Equal(again, had) {
		t.Errorf("came back to %v, had %v", again, had)
	}
}
