package cni_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// startAndEnd starts a pod that asks for nothing, ends it, and returns its IPv4 address.
func (w *testNode) startAndEnd(pod string) string {
	w.t.Helper()
	s := plain(pod)
	addr := w.mustAdd(s)[0].String()
	w.stop(s)
	return addr
}

// stop ends a pod and its network namespace.
func (w *testNode) stop(s sandbox) {
	w.t.Helper()
	delete(w.netns, s.netns())
	if err := w.del(s); err != nil {
		w.t.Fatal(err)
	}
}

// TestAReleasedAddressWaits fills a pool of five addresses, ends pods one after the other and starts a new one. By the
// order of trial, 10.1.0.2 is next.
func TestAReleasedAddressWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		ipam  map[string]any
		ends  []int
		pause time.Duration // after each end
		want  string
	}{
		"the next pod gets another one":             {ends: []int{4, 0}, pause: 20 * time.Second, want: "10.1.0.6"},
		"until the delay is over":                   {ends: []int{4, 0}, pause: 30 * time.Second, want: "10.1.0.2"},
		"unless no other is free":                   {ends: []int{0}, want: "10.1.0.2"},
		"then the one that was released first":      {ends: []int{3, 0, 4}, want: "10.1.0.5"},
		"without a delay the order of trial counts": {ipam: map[string]any{"releaseDelay": "0s"}, ends: []int{3, 0, 4}, want: "10.1.0.2"},
		"a longer delay":                            {ipam: map[string]any{"releaseDelay": "120s"}, ends: []int{4, 0}, pause: time.Minute, want: "10.1.0.6"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.ipam = tc.ipam
			for n := range 5 {
				w.mustAdd(plain(fmt.Sprint("p", n)))
			}
			for _, n := range tc.ends {
				w.stop(plain(fmt.Sprint("p", n)))
				w.pass(tc.pause)
			}
			if got := w.mustAdd(plain("new"))[0].String(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestTheSameOwnerNeedNotWait brings a pod back at once, to the only address that was just released.
func TestTheSameOwnerNeedNotWait(t *testing.T) {
	w := newTestNode(t)
	s := plain("web-0")
	s.annotations = map[string]string{reservation.RetainAnnotation: "10"}
	had := w.mustAdd(s)[0]
	w.stop(s)
	s.id = "again"
	if got := w.mustAdd(s)[0]; got != had {
		t.Errorf("came back to %s, had %s", got, had)
	}
	if len(w.owners) != 0 {
		t.Errorf("the node forgot %v of the owner itself", w.owners)
	}
}

// TestARolledBackADDDelaysNothing fails an ADD in a pool of one free address.
func TestARolledBackADDDelaysNothing(t *testing.T) {
	w := newTestNode(t)
	w.start(plain("failing"))
	addrs, err := w.addUncached(plain("failing"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.stop(plain("failing"))
	for n := range 4 { // the other addresses
		w.startAndEnd(fmt.Sprint("other", n))
		w.pass(time.Minute)
	}
	if got := w.startAndEnd("new"); got != addrs[0].String() || len(w.owners) > 0 {
		t.Errorf("got %s, forgot the owners of %v; want %s and none", got, w.owners, addrs[0])
	}
}

// TestANewOwnerGetsNothingOfTheOldOne hands an address to another pod, soon and late after its release.
func TestANewOwnerGetsNothingOfTheOldOne(t *testing.T) {
	for name, tc := range map[string]struct {
		wait time.Duration
		want string
	}{
		"soon":           {want: "[10.1.0.2]"},
		"within minutes": {wait: 9 * time.Minute, want: "[10.1.0.2]"},
		"later":          {wait: 10 * time.Minute, want: "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			for n := range 5 {
				w.mustAdd(plain(fmt.Sprint("p", n)))
			}
			if len(w.owners) != 0 {
				t.Errorf("the node forgot the owners of %v, which had none", w.owners)
			}
			w.stop(plain("p0"))
			w.pass(tc.wait)
			w.mustAdd(plain("new"))
			if got := fmt.Sprint(w.owners); got != tc.want {
				t.Errorf("the node forgot the owners of %s, want %s", got, tc.want)
			}
		})
	}
}

// TestARequestedAddressLosesItsOwner asks for an address by number that was just released.
func TestARequestedAddressLosesItsOwner(t *testing.T) {
	w := newTestNode(t)
	addr := w.startAndEnd("old")
	w.start(plain("new"))
	got, err := w.addUncached(plain("new"), map[string]any{"args": map[string]any{"cni": map[string]any{"ips": []string{addr}}}})
	if err != nil || got[0].String() != addr || fmt.Sprint(w.owners) != fmt.Sprintf("[%s]", addr) {
		t.Errorf("got %v, %v, and the node forgot the owners of %v", got, err, w.owners)
	}
}

// TestAFailureToForgetTheOwnerIsAWarning lets the kernel refuse.
func TestAFailureToForgetTheOwnerIsAWarning(t *testing.T) {
	w := newTestNode(t)
	w.logTo()
	w.plugin.ForgetOwner = func([]netip.Addr) error { return fmt.Errorf("no") }
	for n := range 5 {
		w.mustAdd(plain(fmt.Sprint("p", n)))
	}
	w.stop(plain("p0"))
	w.mustAdd(plain("new"))
	if l := w.lastLine(); l.Outcome != "new" || len(l.Notes) != 1 {
		t.Errorf("said %+v", l)
	}
}
