package cni_test

import (
	stdcmp "cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestRollback sends the DEL of an ADD that claimed a reservation, and of an ADD that did not.
// libcni's cache tells a DEL within a failing ADD (rule 8) from a DEL that ends a pod.
func TestRollback(t *testing.T) {
	for name, tc := range map[string]struct {
		prevResult func(had []netip.Addr) any // of the DEL
		cached     bool
		after      time.Duration
		undone     bool
	}{
		"a DEL without a result undoes the ADD":         {undone: true},
		"so does one with the result of another plugin": {prevResult: func([]netip.Addr) any { return result("192.0.2.9/24") }, undone: true},
		"so does one with a null result":                {prevResult: func([]netip.Addr) any { return nil }, undone: true},
		"the result of the ADD tells that it succeeded": {prevResult: func(had []netip.Addr) any { return result(had[0].String()+"/29", had[1].String()+"/64") }},
		"so does libcni's cache":                        {cached: true},
		"an old attachment's ADD is not failing now":    {after: 4 * time.Minute},
	} {
		for _, claims := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, claimed=%t", name, claims), func(t *testing.T) {
				w, s := newTestNode(t), lostSandbox("web", true)
				if claims {
					w.mustAdd(s)
					w.mustDel(s)
					w.pass(3 * time.Minute)
				}
				before := w.read()
				s = next(s)
				had, err := w.addUncached(s, nil)
				if err != nil {
					t.Fatal(err)
				}
				if tc.cached {
					w.cache(s)
				}
				w.pass(tc.after)
				conf := map[string]any{}
				if tc.prevResult != nil {
					conf["prevResult"] = tc.prevResult(had)
				}
				if err := w.plugin.Funcs().Del(w.args(s, conf)); err != nil {
					t.Fatal(err)
				}
				after := w.read()
				if tc.undone {
					if !claims && len(after.Reserved) > 0 {
						t.Errorf("reserved %v, which was not before", after.Reserved)
					}
					if was, is := before.Reserved[s.owner()], after.Reserved[s.owner()]; claims && (!cmp.Equal(was.Deadline, is.Deadline) || !slices.Equal(was.Addresses, is.Addresses)) {
						t.Errorf("put back %v, was %v", is, was)
					}
					return
				}
				want := reservation.Deadline{From: w.now, For: 10 * time.Minute}
				if r := after.Reserved[s.owner()]; !cmp.Equal(r.Deadline, want) || !slices.Equal(r.Addresses, had) {
					t.Errorf("reserved %v, want %v with the deadline %v", r, had, want)
				}
			})
		}
	}
}

// TestAShortLifeWithoutAResult ends a pod soon after its ADD, by a DEL without a result as libcni sends it before 0.4.0.
// The missing result is that of a failed ADD only where results of the network are kept.
func TestAShortLifeWithoutAResult(t *testing.T) {
	for name, tc := range map[string]struct {
		files    []string // in a result cache, with the ID of the container for ID
		other    []string // in a cache of another program
		earlier  bool     // an earlier life had a result
		caller   int      // of the DEL; that of the ADD is 11
		rollback bool
	}{
		"nothing is known of the caller's cache":                           {},
		"only another network has results":                                 {files: []string{"cbr0-c9-eth0"}},
		"the loopback network of the container has one":                    {files: []string{"cni-loopback-ID-lo"}},
		"other pods of the network have results":                           {files: []string{"limpet-c9-eth0"}, rollback: true},
		"other pods have them in the cache of another program":             {other: []string{"limpet-c9-eth0"}, rollback: true},
		"the pod has one in the cache of another program":                  {other: []string{"limpet-ID-eth0", "limpet-c9-eth0"}},
		"an earlier life of the node had a result":                         {earlier: true, rollback: true},
		"... and now another program is called, which keeps its own cache": {earlier: true, files: []string{"multus-cni-network-ID-eth0"}},
		"the interface plugin that called ADD undoes it":                   {caller: 11, rollback: true},
		"a delegate fails beside one that came up":                         {files: []string{"multus-cni-network-c9-eth0"}, other: []string{"limpet-c9-net1", "limpet-ID-net1"}, rollback: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, other := newTestNode(t), t.TempDir()
			w.plugin.OtherResultsDirs = []string{other}
			if err := os.Remove(w.cacheFile(bystander)); err != nil {
				t.Fatal(err)
			}
			if tc.earlier {
				w.mustAdd(plain("earlier"))
				w.mustDel(plain("earlier"))
			}
			s := lostSandbox("web", true)
			w.plugin.Caller = 11
			had, err := w.addUncached(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			w.plugin.Caller = stdcmp.Or(tc.caller, 12)
			for dir, files := range map[string][]string{w.results: tc.files, other: tc.other} {
				for _, f := range files {
					if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(f, "ID", s.id)), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.pass(time.Minute)
			w.mustDel(s)
			r, kept := w.read().Reserved[s.owner()]
			if kept == tc.rollback || kept && (!slices.Equal(r.Addresses, had) || r.Deadline.Left(w.now) != 10*time.Minute) {
				t.Errorf("reserved %+v, rollback: %t", r, tc.rollback)
			}
		})
	}
}

func result(addrs ...string) any {
	var ips []map[string]string
	for _, a := range addrs {
		ips = append(ips, map[string]string{"address": a})
	}
	return map[string]any{"cniVersion": "1.1.0", "ips": ips}
}

func (w *testNode) mustDel(s sandbox) {
	w.t.Helper()
	if err := w.del(s); err != nil {
		w.t.Fatal(err)
	}
	delete(w.netns, s.netns())
}

// ignoreNetNS compares reservations without the namespace of the life that ended: after a
// rollback the namespace is that of the failed ADD.
var ignoreNetNS = cmpopts.IgnoreFields(reservation.Reservation{}, "NetNS", "BootID")

// TestRollbackRestoresTheRetentionRequest undoes the ADD of a life that asks for less than the
// life whose reservation it claimed.
func TestRollbackRestoresTheRetentionRequest(t *testing.T) {
	w, s := newTestNode(t), lostSandbox("web", true)
	s.uid = "first"
	s.annotations = map[string]string{reservation.RetainAnnotation: "60", reservation.ModeAnnotation: "required"}
	w.mustAdd(s)
	w.mustDel(s)
	want := w.read().Reserved[s.owner()]
	w.pass(time.Minute)
	s = next(s)
	s.uid, s.annotations = "second", map[string]string{reservation.RetainAnnotation: "1"}
	if _, err := w.addUncached(s, nil); err != nil {
		t.Fatal(err)
	}
	w.mustDel(s)
	if diff := cmp.Diff(want, w.read().Reserved[s.owner()], cmpopts.EquateComparable(netip.Addr{}), ignoreNetNS); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRollbackAfterALostDEL undoes several ADDs, of which only the last has a DEL.
func TestRollbackAfterALostDEL(t *testing.T) {
	for name, kept := range map[string]bool{"what was kept keeps its deadline": true, "and none is made": false} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), lostSandbox("web", true)
			if kept {
				w.mustAdd(s)
				w.mustDel(s)
			}
			want := w.read().Reserved
			for range 3 {
				w.pass(3 * time.Minute)
				s = next(s)
				w.start(s)
				if _, err := w.addUncached(s, nil); err != nil {
					t.Fatal(err)
				}
				delete(w.netns, s.netns())
			}
			w.mustDel(s)
			if diff := cmp.Diff(want, w.read().Reserved, cmpopts.EquateComparable(netip.Addr{}), ignoreNetNS); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRollbackOfAnADDThatDroppedAReservation undoes an ADD that took other addresses, because
// the reserved ones could not be handed out.
func TestRollbackOfAnADDThatDroppedAReservation(t *testing.T) {
	grown := map[string]any{"ranges": json.RawMessage(`[[{"subnet":"10.2.0.0/29"}],[{"subnet":"fd00:1::/64"}]]`)}
	byNumber := map[string]any{"runtimeConfig": map[string]any{"ips": []string{"10.1.0.5"}}}
	for name, tc := range map[string]struct {
		unended bool           // the earlier life had no DEL
		ipam    map[string]any // of the ADD, instead
		more    map[string]any
		between func(w *testNode) // the ADD and its DEL
		lost    bool
	}{
		"because its ranges have changed":           {ipam: grown},
		"because another address was asked for":     {more: byNumber},
		"and whose earlier life had not been ended": {unended: true, ipam: grown},
		"and another pod has it by now": {more: byNumber, lost: true, between: func(w *testNode) {
			for i := range 4 {
				w.mustAdd(plain(fmt.Sprintf("other-%d", i)))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), lostSandbox("web", true)
			had := w.mustAdd(s)
			want := reservation.Reservation{Addresses: had, Deadline: reservation.Deadline{From: w.now, For: 10 * time.Minute}}
			if tc.unended {
				delete(w.netns, s.netns())
			} else {
				w.mustDel(s)
				w.pass(3 * time.Minute)
			}
			want.Deadline.From = w.now
			if !tc.unended {
				want = w.read().Reserved[s.owner()]
			}
			s = next(s)
			w.ipam = tc.ipam
			got, err := w.addUncached(s, tc.more)
			if err != nil || slices.Contains(got, had[0]) {
				t.Fatalf("the ADD answered %v and %v", got, err)
			}
			w.ipam = nil
			if tc.between != nil {
				tc.between(w)
			}
			if err := w.del(s); err != nil {
				t.Fatal(err)
			}
			is, has := w.read().Reserved[s.owner()]
			if has == tc.lost || has && (!cmp.Equal(want.Deadline, is.Deadline) || !slices.Equal(want.Addresses, is.Addresses)) {
				t.Errorf("the DEL put back %v, was %v", is, want)
			}
		})
	}
}
