package cni_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// The tests in this file are about network namespaces that outlive the end of their container:
// the interface plugin was killed after its IPAM DEL, and the address is still inside.

// stuckDel ends a container and leaves its interface.
func (w *testNode) stuckDel(s sandbox) {
	w.t.Helper()
	w.stuck = true
	defer func() { w.stuck = false }()
	if err := w.del(s); err != nil {
		w.t.Fatal(err)
	}
}

// TestOwnerWaitsForTheNamespace rebuilds a pod whose old namespace still has the address.
func TestOwnerWaitsForTheNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		mode     string
		goes     func(w *testNode, s sandbox)
		wantCode uint
		same     bool
	}{
		"until the namespace is gone":                {goes: func(w *testNode, s sandbox) { delete(w.netns, s.netns()) }, same: true},
		"until the interface is gone":                {goes: func(w *testNode, s sandbox) { delete(w.inside, s.netns()) }, same: true},
		"until a repeated DEL removes it":            {goes: func(w *testNode, s sandbox) { _ = w.del(s) }, same: true},
		"until a reboot":                             {goes: func(w *testNode, s sandbox) { n := w.netns[s.netns()]; w.reboot(0); w.netns[s.netns()] = n }, same: true},
		"no longer than the wait":                    {goes: func(w *testNode, _ sandbox) { w.pass(predecessorWait) }},
		"longer, with mode required":                 {mode: "required", goes: func(w *testNode, _ sandbox) { w.pass(predecessorWait) }, wantCode: types.ErrTryAgainLater},
		"with mode required, and then it comes back": {mode: "required", goes: func(w *testNode, s sandbox) { delete(w.netns, s.netns()) }, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), lostSandbox("web", true)
			if tc.mode != "" {
				s.annotations[reservation.ModeAnnotation] = tc.mode
			}
			w.start(s)
			had := w.mustAdd(s)
			w.stuckDel(s)
			for range 2 {
				if _, err := w.add(next(s)); codeOf(err) != types.ErrTryAgainLater || !strings.Contains(err.Error(), s.netns()) {
					t.Fatalf("ADD: %v, want code 11 that names the namespace", err)
				}
			}
			tc.goes(w, s)
			again, err := w.add(next(s))
			if codeOf(err) != tc.wantCode || err == nil && slices.Equal(again, had) != tc.same {
				t.Errorf("had %v, got %v, %v", had, again, err)
			}
		})
	}
}

// TestAddressInANamespaceGoesToNobody frees the address of a pod in every way, while its
// namespace still has the address, and then starts pods until the range is exhausted.
func TestAddressInANamespaceGoesToNobody(t *testing.T) {
	del := func(w *testNode, s sandbox) { w.stuckDel(s) }
	for name, tc := range map[string]struct {
		asks bool
		free func(w *testNode, s sandbox)
	}{
		"a DEL of a pod that asked for nothing": {free: del},
		"a reservation that lapses":             {asks: true, free: func(w *testNode, s sandbox) { del(w, s); w.pass(time.Hour) }},
		"a reservation that gives way to pods":  {asks: true, free: del},
		"a reservation that a person releases": {asks: true, free: func(w *testNode, s sandbox) {
			del(w, s)
			w.update(func(tx *persistence.Tx) error { return tx.DeleteReservation(s.owner()) })
		}},
		"a successor that took another address": {asks: true, free: func(w *testNode, s sandbox) {
			del(w, s)
			_, _ = w.add(next(s)) // refused
			w.pass(predecessorWait)
			w.mustDel(w.with(next(s)))
		}},
		"an ADD that is rolled back": {free: func(w *testNode, s sandbox) {
			_ = w.run(w.plugin.Funcs().Del, w.args(s, nil))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), lostSandbox("web", tc.asks)
			w.start(s)
			had := w.mustAdd(s)
			tc.free(w, s)
			for i := 0; ; i++ {
				p := lostSandbox("new-"+string(rune('a'+i)), false)
				p.annotations = map[string]string{}
				addrs, err := w.add(p)
				if codeOf(err) == 100 {
					if i == 0 {
						t.Error("no pod started")
					}
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return slices.Contains(had, a) }) {
					t.Fatalf("%s got %v, and %s still has %v", p.pod, addrs, s.netns(), had)
				}
			}
			if !strings.Contains(w.log.String(), "Free address is in use") && name != "a reservation that gives way to pods" {
				t.Errorf("no warning:\n%s", w.log.String())
			}
			delete(w.netns, s.netns())
			last := lostSandbox("last", false)
			if got := w.mustAdd(last); got[0] != had[0] {
				t.Errorf("got %v once the namespace is gone, want %v", got, had)
			}
		})
	}
}

// with starts a sandbox.
func (w *testNode) with(s sandbox) sandbox {
	w.t.Helper()
	w.start(s)
	w.mustAdd(s)
	return s
}

func (w *testNode) update(fn func(*persistence.Tx) error) {
	w.t.Helper()
	if err := persistence.New(persistence.Options{Dir: w.dir}).Update(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// TestSlowLooksHaveABound ends pods whose namespaces stay, on a node whose kernel takes two
// seconds to say what a namespace has. Every verb waits for an ADD, so only one look may be slow.
func TestSlowLooksHaveABound(t *testing.T) {
	w := newTestNode(t)
	for _, pod := range []string{"a", "b", "c", "d", "e"} {
		s := plain(pod)
		w.start(s)
		w.mustAdd(s)
		w.stuckDel(s)
	}
	looks := 0
	w.plugin.Has = func(reservation.NetNS, []netip.Addr) bool {
		looks++
		w.pass(2 * time.Second)
		return true
	}
	if _, err := w.add(plain("new")); codeOf(err) != 100 || looks != 1 {
		t.Errorf("%d looks, %v", looks, err)
	}
}

// TestRecordsOfLastHoldersBecomeFewer starts and ends pods of an IPv6 range, where no
// address comes again.
func TestRecordsOfLastHoldersBecomeFewer(t *testing.T) {
	w := newTestNode(t)
	for i := range 60 {
		s := plain("p" + string(rune('0'+i%10)) + string(rune('0'+i/10)))
		w.start(s)
		w.mustAdd(s)
		w.mustDel(s)
	}
	w.update(func(tx *persistence.Tx) error {
		if some, err := tx.SomeLastHolders(network, 100, 0); err != nil || len(some) > forgottenAtOnce {
			t.Errorf("%d records are left, %v", len(some), err)
		}
		return nil
	})
}

// forgottenAtOnce is more records than one ADD and one DEL leave.
const forgottenAtOnce = 8

// TestNamespacesThatStayKeepNoRecords ends ten pods whose namespaces stay, at the lowest addresses. The records of the
// pods after them become fewer all the same.
func TestNamespacesThatStayKeepNoRecords(t *testing.T) {
	const stay = 10
	w := newTestNode(t)
	store := persistence.New(persistence.Options{Dir: w.dir})
	first := plain("first")
	w.start(first)
	w.mustAdd(first)
	w.update(func(tx *persistence.Tx) error {
		addr := netip.MustParseAddr("fd00:9::1")
		for i := range 2 * stay {
			s := plain("old" + string(rune('a'+i)))
			ns := reservation.NetNS{Path: "/gone", Dev: 4, Inode: 1}
			if i < stay {
				w.start(s)
				ns = w.netns[s.netns()]
			}
			a := reservation.Attachment{
				ID: reservation.AttachmentID{Network: network, ContainerID: s.pod, IfName: "eth0"}, Owner: s.owner(), Addresses: []netip.Addr{addr},
				NetNS: ns, Since: reservation.Moment{BootID: w.now.BootID},
			}
			if err := errors.Join(tx.PutAttachment(a), tx.DeleteAttachment(a.ID)); err != nil {
				return err
			}
			addr = addr.Next()
		}
		return nil
	})
	for i := range 100 {
		s := plain("p" + string(rune('0'+i%10)) + string(rune('0'+i/10)))
		w.start(s)
		w.mustAdd(s)
		w.mustDel(s)
		w.pass(time.Second)
	}
	err := store.View(t.Context(), func(tx *persistence.Tx) error {
		some, err := tx.SomeLastHolders(network, 1000, 0)
		if len(some) > stay+forgottenAtOnce {
			t.Errorf("%d records are left, want those of %d namespaces that stay and few others", len(some), stay)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
