package cni_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// elsewhere are addresses of another node.
var elsewhere = []netip.Addr{netip.MustParseAddr("10.9.0.2"), netip.MustParseAddr("fd00:9::2")}

func follower(home string) sandbox {
	s := lostSandbox("web", false)
	s.annotations = map[string]string{reservation.ModeAnnotation: reservation.Follow.String()}
	if home != "" {
		s.annotations[reservation.HomeAnnotation] = home
	}
	return s
}

// write writes a record as the agent does, and ends the waits for it.
func (w *testNode) write(addrs []netip.Addr, step loan.Step) error {
	owner := follower("").owner()
	step.Verb, step.Record.Confirmed = loan.Write, true
	err := persistence.New(persistence.Options{Dir: w.dir}).Update(w.t.Context(), func(tx *persistence.Tx) error {
		return lifecycle.WriteLoan(tx, owner, addrs, step, w.now)
	})
	id := owner.LoanID()
	_ = os.Remove(filepath.Join(w.dir, persistence.PendingDir, "."+strings.Join([]string{id.Network, id.ContainerID, id.IfName}, ":"))) // where an ADD waits
	return err
}

// TestAPodThatFollows plays lives of a pod on one node, and what its agent writes. The pod has the addresses of this node at the
// beginning.
func TestAPodThatFollows(t *testing.T) {
	lend := func(w *testNode, addrs []netip.Addr) error {
		return w.write(addrs, loan.Step{Record: loan.Record{Lent: 7}, Unattached: true})
	}
	takeBack := func(w *testNode, addrs []netip.Addr) error { return w.write(addrs, loan.Step{Reserve: true}) }
	confirm := func(w *testNode, addrs []netip.Addr) error { return w.write(addrs, loan.Step{}) }
	borrow := func(w *testNode, _ []netip.Addr) error {
		return w.write(elsewhere, loan.Step{Record: loan.Record{Guest: 8}})
	}
	giveBack := func(w *testNode, _ []netip.Addr) error { return w.write(elsewhere, loan.Step{Unattached: true}) }
	end := func(w *testNode, _ []netip.Addr) error {
		s := follower("")
		err := w.del(s)
		delete(w.netns, s.netns())
		return err
	}
	gc := func(w *testNode, _ []netip.Addr) error {
		delete(w.netns, follower("").netns())
		return w.run(w.plugin.Funcs().GC, w.args(bystander, map[string]any{"cni.dev/valid-attachments": []any{}}))
	}
	fail := func(w *testNode, _ []netip.Addr) error {
		s := next(follower("n2"))
		w.start(s)
		_, err := w.addUncached(s, nil)
		err = errors.Join(err, w.del(s))
		delete(w.netns, s.netns())
		return err
	}
	year := func(w *testNode, _ []netip.Addr) error { w.pass(365 * 24 * time.Hour); return nil }
	reboot := func(w *testNode, _ []netip.Addr) error { w.reboot(time.Minute); return nil }
	type does = func(*testNode, []netip.Addr) error
	for name, tc := range map[string]struct {
		does   []does
		home   string
		during does   // while the ADD waits; nil when it must not
		code   uint   // of the ADD
		says   string // of the error
		guest  bool
	}{
		"it comes back after a year":                     {does: []does{end, year}},
		"its end is seen by GC":                          {does: []does{gc, year}},
		"it comes back, and has been elsewhere":          {does: []does{end}, home: "n2"},
		"its address is lent":                            {does: []does{end, lend}, during: year, code: types.ErrTryAgainLater, says: "is lent to another node"},
		"its address is lent, also after a reboot":       {does: []does{end, lend, reboot}, during: year, code: types.ErrTryAgainLater, says: "is lent to another node"},
		"its address comes home":                         {does: []does{end, lend, year, takeBack}, home: "n1"},
		"its address comes home while it waits":          {does: []does{end, lend}, during: takeBack},
		"it comes back after a reboot":                   {does: []does{reboot}, during: year, code: types.ErrTryAgainLater, says: "may be lent since this node started"},
		"it ended before a reboot":                       {does: []does{end, reboot}, during: year, code: types.ErrTryAgainLater, says: "may be lent since this node started"},
		"it ended after a reboot":                        {does: []does{reboot, end}, during: year, code: types.ErrTryAgainLater, says: "may be lent since this node started"},
		"it comes back after a reboot, and is confirmed": {does: []does{reboot, confirm}},
		"it is confirmed while it waits":                 {does: []does{end, reboot}, during: confirm},
		"it is a guest":                                  {does: []does{end, lend, takeBack, borrow}, home: "n2", guest: true},
		"it is a guest, and its ADD fails":               {does: []does{end, borrow, fail}, home: "n2", guest: true},
		"it is a guest before a reboot":                  {does: []does{end, borrow, reboot}, during: year, code: types.ErrTryAgainLater, says: "may be lent"},
		"it is borrowed while it waits":                  {does: []does{end, borrow, giveBack}, home: "n2", during: borrow, guest: true},
		"it is given back":                               {does: []does{end, borrow, giveBack}, home: "n2", during: year, code: types.ErrTryAgainLater, says: "is of node n2"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), follower("")
			w.start(s)
			want := w.mustAdd(s)
			for _, do := range tc.does {
				if err := do(w, want); err != nil {
					t.Fatal(err)
				}
			}
			waited := false
			w.plugin.Await = func(wait cni.Wait) {
				waited = true
				if tc.during == nil || wait.Over() {
					t.Fatalf("waits for %+v", wait)
				}
				if err := tc.during(w, want); err != nil {
					t.Error(err)
				}
			}
			s = next(next(follower(tc.home)))
			w.start(s)
			got, err := w.add(s)
			if codeOf(err) != tc.code || waited != (tc.during != nil) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("%v, %v, waited %t; want code %d and %q", got, err, waited, tc.code, tc.says)
			}
			if tc.guest {
				want = elsewhere
			}
			if err == nil && !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if left, _ := filepath.Glob(filepath.Join(w.dir, ".pending", ".*")); len(left) > 0 {
				t.Errorf("markers are left: %v", left)
			}
			w.judgeGuest(s, tc.guest)
		})
	}
}

// judgeGuest compares what a guest got with the ranges of this node, and ends it.
func (w *testNode) judgeGuest(s sandbox, guest bool) {
	w.t.Helper()
	if !guest {
		return
	}
	var result struct {
		IPs []struct{ Address, Gateway string } `json:"ips"`
	}
	if err := json.Unmarshal(w.out.Bytes(), &result); err != nil || len(result.IPs) != 2 ||
		result.IPs[0] != struct{ Address, Gateway string }{"10.9.0.2/29", "10.9.0.1"} ||
		result.IPs[1] != struct{ Address, Gateway string }{"fd00:9::2/64", "fd00:9::1"} {
		w.t.Errorf("result %s, %v", w.out.String(), err)
	}
	was := w.read()
	if a := was.Attached[s.attachment()]; a.Guest != 8 || w.run(w.plugin.Funcs().Check, w.args(s, map[string]any{"prevResult": json.RawMessage(w.out.Bytes())})) != nil {
		w.t.Errorf("attached %+v, and CHECK fails", a)
	}
	if err := w.del(s); err != nil {
		w.t.Error(err)
	}
	now := w.read()
	if r := now.Reserved[s.owner()]; r.Guest != 8 || r.Deadline.For != reservation.Forever || !slices.Equal(r.Addresses, elsewhere) || now.Counted != was.Counted {
		w.t.Errorf("reserved %+v; counted %d and then %d", r, was.Counted, now.Counted)
	}
	if report, err := persistence.New(persistence.Options{Dir: w.dir}).Audit(w.t.Context(), nil); err != nil || len(report.Faults) > 0 {
		w.t.Errorf("audit: %+v, %v", report.Faults, err)
	}
}

// TestHomeLostTheAddress has a pod whose address gave way to others, on its home and on another node: home waits for no loan.
func TestHomeLostTheAddress(t *testing.T) {
	w, s := newTestNode(t), follower("n1")
	w.plugin.Await = nil
	w.start(s)
	for node, code := range map[string]uint{"n1": 0, "n2": types.ErrTryAgainLater, "": types.ErrTryAgainLater} {
		if _, err := w.addUncached(s, w.ipamWith(`{"node":"`+node+`"}`)); codeOf(err) != code {
			t.Errorf("on node %q: code %d, %v; want code %d", node, codeOf(err), err, code)
		}
		if err := w.del(s); err != nil {
			t.Fatal(err)
		}
		err := persistence.New(persistence.Options{Dir: w.dir}).Update(t.Context(), func(tx *persistence.Tx) error {
			return tx.DeleteReservation(s.owner()) // as a quota or a full pool does
		})
		if err != nil && !errors.Is(err, persistence.ErrUnchanged) {
			t.Fatal(err)
		}
	}
}

// TestAnADDAsksForWhatItClaims borrows other addresses while an ADD asks the segment: it claims none for which it did not ask.
func TestAnADDAsksForWhatItClaims(t *testing.T) {
	w, s := newTestNode(t), follower("n2")
	w.ipam = map[string]any{"sharedNetwork": true}
	guests := func(epoch int64, hosts ...string) (addrs []netip.Addr) {
		for _, h := range hosts {
			addrs = append(addrs, netip.MustParseAddr(h))
		}
		if err := w.write(addrs, loan.Step{Record: loan.Record{Guest: epoch}}); err != nil {
			t.Fatal(err)
		}
		return addrs
	}
	first := guests(7, "10.1.0.5", "fd00:1::5")
	var asked [][]netip.Addr
	w.plugin.Ask = func(_ string, addrs []netip.Addr) (map[netip.Addr]net.HardwareAddr, error) {
		if asked = append(asked, addrs); len(asked) == 1 {
			if err := w.write(first, loan.Step{Unattached: true}); err != nil {
				t.Error(err)
			}
			guests(9, "10.1.0.6", "fd00:1::6")
		}
		return nil, nil
	}
	w.start(s)
	got, err := w.addUncached(s, map[string]any{"type": "bridge"})
	if err == nil && !slices.Equal(got, asked[len(asked)-1]) {
		t.Errorf("claimed %v, asked for %v", got, asked)
	}
	if err != nil && codeOf(err) != types.ErrTryAgainLater {
		t.Error(err)
	}
}

// atEnd does something once the transaction of an ADD is over.
type atEnd struct {
	outside.Source
	do func()
}

func (s atEnd) Add(reservation.Attachment) (outside.Add, error) {
	return outside.Add{Done: func(reservation.Attachment, error) error { s.do(); return nil }}, nil
}

// TestAnADDThatEndsBeforeItAsks ends the container when its ADD has given the lock back to ask the segment: it attaches nothing.
func TestAnADDThatEndsBeforeItAsks(t *testing.T) {
	w, s := newTestNode(t), follower("n2")
	w.ipam = map[string]any{"sharedNetwork": true}
	if err := w.write([]netip.Addr{netip.MustParseAddr("10.1.0.5"), netip.MustParseAddr("fd00:1::5")}, loan.Step{Record: loan.Record{Guest: 7}}); err != nil {
		t.Fatal(err)
	}
	w.plugin.Ask = func(string, []netip.Addr) (map[netip.Addr]net.HardwareAddr, error) { return nil, nil }
	end := sync.OnceFunc(func() {
		w.plugin.HostLocal = func(outside.Verb) outside.Source { return nil }
		if err := w.del(s); err != nil {
			t.Error(err)
		}
	})
	w.plugin.HostLocal = func(outside.Verb) outside.Source { return atEnd{do: end} }
	w.start(s)
	if got, err := w.addUncached(s, map[string]any{"type": "bridge"}); err == nil {
		t.Errorf("got %v after the DEL", got)
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, ".pending", "*")); len(left) > 0 || len(w.read().Attached) > 0 {
		t.Errorf("left: %v, attached %v", left, w.read().Attached)
	}
}

// TestARebuiltStateLendsNoAddressInUse damages the state while a pod that follows runs. What the agent then writes, as for an owner
// of whom it has just read that there is no loan, ends no life; and home does not lend.
func TestARebuiltStateLendsNoAddressInUse(t *testing.T) {
	for name, d := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s, other := newTestNode(t), follower(""), lostSandbox("new", false)
			w.start(s)
			addrs := w.mustAdd(s)
			w.cacheWhole(s, addrs)
			w.recovery.Interfaces = w.interfaces(map[string][]netip.Addr{s.pod: addrs}, s)
			w.harm(d)
			w.start(other)
			w.mustAdd(other) // makes the state again
			if err := w.write(addrs, loan.Step{}); err != nil && !errors.Is(err, persistence.ErrUnchanged) {
				t.Fatal(err)
			}
			if err := w.write(addrs, loan.Step{Record: loan.Record{Lent: 7}, Unattached: true}); !errors.Is(err, reservation.ErrHeld) {
				t.Errorf("the address of a pod that runs is lent: %v; attached %+v", err, w.read().Attached)
			}
		})
	}
}
