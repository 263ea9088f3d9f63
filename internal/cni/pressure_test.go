package cni_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// comeAndGo starts and ends a pod that asks for so many minutes, and for a mode if one is given.
func (w *testNode) comeAndGo(ns, pod string, minutes int, mode ...string) {
	w.t.Helper()
	s := sandbox{
		id: fmt.Sprintf("%s-%s-%s", ns, pod, w.elapsed), ns: ns, pod: pod, ifName: "eth0",
		annotations: map[string]string{reservation.RetainAnnotation: fmt.Sprint(minutes)},
	}
	if len(mode) > 0 {
		s.annotations[reservation.ModeAnnotation] = mode[0]
	}
	w.start(s)
	if _, err := w.add(s); err != nil {
		w.t.Fatal(err)
	}
	delete(w.netns, s.netns())
	if err := w.del(s); err != nil {
		w.t.Fatal(err)
	}
	w.pass(time.Second)
}

// reserved lists who has a reservation.
func (w *testNode) reserved() []string {
	var names []string
	for o := range maps.Keys(w.read().Reserved) {
		names = append(names, o.String())
	}
	slices.Sort(names)
	return names
}

// pressure is what is kept for the agent to tell.
func (w *testNode) pressure() (p persistence.PoolUsage) {
	w.t.Helper()
	err := persistence.New(persistence.Options{Dir: w.dir}).View(w.t.Context(), func(tx *persistence.Tx) (err error) {
		p, err = tx.PoolUsage(network)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func TestExhaustion(t *testing.T) {
	const exhausted = "failed to allocate for range 0: no IP addresses available in range set: 10.1.0.1-10.1.0.6; "
	for name, tc := range map[string]struct {
		policy   string
		attached int // of the five
		want     uint
		text     string
	}{
		"reclaim takes a reservation": {policy: "reclaim"},
		"refuse tells how many are reserved": {
			policy: "refuse", want: cni.CodeExhausted,
			text: exhausted + `5 of its 5 addresses are reserved: the first for another 9m55s, and none gives way because ipam.onExhaustion is "refuse": ` +
				"wait, free one with limpet-ipam release, or let the range grow",
		},
		"there may be none to take": {
			policy: "reclaim", attached: 5, want: cni.CodeExhausted,
			text: exhausted + "0 of its 5 addresses are reserved: pods of this node must end, or the range must grow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.ipam = map[string]any{"maxReservedPercent": 100}
			for i := range 5 - tc.attached {
				w.comeAndGo("ns", fmt.Sprintf("web-%d", i), 10)
			}
			for i := range tc.attached {
				if _, err := w.add(sandbox{id: fmt.Sprintf("c%d", i), pod: fmt.Sprintf("run-%d", i), ifName: "eth0"}); err != nil {
					t.Fatal(err)
				}
			}
			addrs, err := w.addUncached(sandbox{id: "new", pod: "new", ifName: "eth0"}, w.ipamWith(fmt.Sprintf(`{"onExhaustion":%q}`, tc.policy)))
			if codeOf(err) != tc.want || (err != nil && err.Error() != tc.text) {
				t.Fatalf("code %d, %v; want %d %s", codeOf(err), err, tc.want, tc.text)
			}
			if err == nil && addrs[0] != netip.MustParseAddr("10.1.0.2") {
				t.Errorf("took %s, want the address of the reservation that ends soonest", addrs[0])
			}
			if got := w.pressure(); got.Exhausted != uint64(min(tc.want, 1)) || got.Reclaimed != 1-uint64(min(tc.want, 1)) {
				t.Errorf("counted %+v", got)
			}
			if err == nil && !strings.Contains(w.log.String(), "gives way") {
				t.Errorf("nothing logged: %s", w.log.String())
			}
		})
	}
}

// TestReservationsStayWithinTheirShare asserts what a DEL logs and stores. The planner's tests
// show which reservation gives way. Three of the five addresses are the share.
func TestReservationsStayWithinTheirShare(t *testing.T) {
	for name, tc := range map[string]struct {
		ipam    map[string]any
		comes   []string
		want    []string
		outcome string
		note    string // in the last line
	}{
		"up to the share all are kept": {
			comes: []string{"a/0", "a/1", "a/2"}, want: []string{"a/0", "a/1", "a/2"}, outcome: "reserved",
		},
		"then an older one gives way": {
			comes: []string{"a/0", "a/1", "a/2", "a/3"}, want: []string{"a/1", "a/2", "a/3"}, outcome: "reserved", note: "an older one gives way",
		},
		"of the namespace with the most": {
			comes: []string{"b/0", "a/0", "a/1", "b/1"}, want: []string{"a/0", "a/1", "b/1"}, outcome: "reserved", note: "an older one gives way",
		},
		"or the new one is not made": {
			comes: []string{"a/0", "b/0", "c/0", "d/0"}, want: []string{"a/0", "b/0", "c/0"}, outcome: "freed", note: "not reserved",
		},
		"refuse ends none before its time": {
			ipam:  map[string]any{"onExhaustion": "refuse"},
			comes: []string{"a/0", "a/1", "a/2", "a/3"}, want: []string{"a/0", "a/1", "a/2"}, outcome: "freed", note: "not reserved",
		},
		"the share can be set": {
			ipam:  map[string]any{"maxReservedPercent": 20},
			comes: []string{"a/0", "a/1"}, want: []string{"a/1"}, outcome: "reserved", note: "an older one gives way",
		},
		"a namespace with its quota used up gives one": {
			ipam:  map[string]any{"maxReservedPerNamespace": 1},
			comes: []string{"b/0", "a/0", "a/1"}, want: []string{"a/1", "b/0"}, outcome: "reserved", note: "hold its quota, an older one gives way",
		},
		"the quota can be a part of the pool": {
			ipam:  map[string]any{"maxReservedPercentPerNamespace": 20, "onExhaustion": "refuse"},
			comes: []string{"b/0", "a/0", "a/1"}, want: []string{"a/0", "b/0"}, outcome: "freed", note: "raise ipam.maxReservedPerNamespace or",
		},
		"to nothing, too": {
			ipam:  map[string]any{"maxReservedPercent": 0},
			comes: []string{"a/0"}, outcome: "freed", note: "not reserved",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.logTo()
			w.ipam = tc.ipam
			for _, c := range tc.comes {
				ns, pod, _ := strings.Cut(c, "/")
				w.comeAndGo(ns, pod, 10)
			}
			if diff := cmp.Diff(tc.want, w.reserved()); diff != "" {
				t.Errorf("reserved (-want +got):\n%s", diff)
			}
			l := w.lastLine()
			if said := fmt.Sprint(l.Notes); l.Outcome != tc.outcome || !strings.Contains(said, tc.note) || (len(l.Notes) > 0) != (tc.note != "") {
				t.Errorf("said %+v", l)
			}
		})
	}
}

// TestGCStaysWithinTheShare ends many attachments in one GC.
func TestGCStaysWithinTheShare(t *testing.T) {
	w := newTestNode(t)
	for i := range 5 {
		s := sandbox{id: fmt.Sprintf("c%d", i), pod: fmt.Sprintf("web-%d", i), ifName: "eth0", annotations: map[string]string{reservation.RetainAnnotation: "10"}}
		if _, err := w.add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.plugin.Funcs().GC(w.args(sandbox{ifName: "eth0"}, map[string]any{"cni.dev/valid-attachments": nil})); err != nil {
		t.Fatal(err)
	}
	if s := w.read(); len(s.Attached) != 0 || len(s.Reserved) != 3 {
		t.Errorf("left %d attached and %d reserved, want 0 and 3", len(s.Attached), len(s.Reserved))
	}
}

// TestALongRequiredReservationDoesNotOutliveANeighbour lets one tenant reserve as much as it can, for a day and with mode
// required, and then start pods until the range set is exhausted. A neighbour has one short reservation.
func TestALongRequiredReservationDoesNotOutliveANeighbour(t *testing.T) {
	w := newTestNode(t)
	w.ipam = map[string]any{"maxReservedPercent": 60}
	w.comeAndGo("victim", "db-0", 5)
	for i := range 3 {
		w.comeAndGo("greedy", fmt.Sprint("web-", i), 24*60, "required")
	}
	if got, want := fmt.Sprint(w.reserved()), "[greedy/web-1 greedy/web-2 victim/db-0]"; got != want {
		t.Fatalf("reserved %s, want %s", got, want)
	}
	for i := range 4 {
		s := sandbox{id: fmt.Sprint("more-", i), ns: "greedy", pod: fmt.Sprint("more-", i), ifName: "eth0"}
		w.start(s)
		if _, err := w.add(s); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fmt.Sprint(w.reserved()), "[victim/db-0]"; got != want {
		t.Errorf("reserved %s, want %s", got, want)
	}
}
