package cni_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/ipam"
)

// usesOf says how the kernel uses the addresses 10.1.0.n.
func usesOf(use ipam.Use, ns ...byte) map[netip.Addr]ipam.Use {
	uses := map[netip.Addr]ipam.Use{}
	for _, n := range ns {
		uses[netip.AddrFrom4([4]byte{10, 1, 0, n})] = use
	}
	return uses
}

// TestAnAddressInUseIsPassedOver starts a pod on a node whose kernel uses addresses that the state has as free.
func TestAnAddressInUseIsPassedOver(t *testing.T) {
	for name, tc := range map[string]struct {
		uses  map[netip.Addr]ipam.Use
		want  string
		count uint64
	}{
		"a route of its own":          {uses: usesOf(ipam.Routed, 2, 3), want: "10.1.0.4", count: 2},
		"a neighbour":                 {uses: usesOf(ipam.Reached, 2), want: "10.1.0.3", count: 1},
		"the gateway is not asked":    {uses: usesOf(ipam.Routed, 1), want: "10.1.0.2"},
		"a neighbour that has all":    {uses: usesOf(ipam.Reached, 2, 3, 4, 5, 6), want: "10.1.0.2", count: 4},
		"an address behind the first": {uses: usesOf(ipam.Routed, 3), want: "10.1.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.logTo()
			w.uses = tc.uses
			if got := w.mustAdd(plain("new"))[0].String(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if got := w.pressure().InUse; got != tc.count {
				t.Errorf("counted %d, want %d", got, tc.count)
			}
			if l := w.lastLine(); len(l.Notes) != int(min(tc.count, 1)) {
				t.Errorf("said %+v", l)
			}
		})
	}
}

// TestAddressesWithRoutesAreNeverHandedOut uses all addresses that are free in the state.
func TestAddressesWithRoutesAreNeverHandedOut(t *testing.T) {
	w := newTestNode(t)
	w.comeAndGo("ns", "web-0", 10)
	w.uses = usesOf(ipam.Routed, 3, 4, 5, 6)
	if got := w.mustAdd(plain("a"))[0].String(); got != "10.1.0.2" {
		t.Errorf("got %s, want the address of the reservation, which gives way", got)
	}
	w.start(plain("b"))
	_, err := w.addUncached(plain("b"), nil)
	if codeOf(err) != cni.CodeExhausted || !strings.Contains(err.Error(), "4 are not in the state, but the node uses them: ip route get 10.1.0.3") {
		t.Errorf("code %d, %v", codeOf(err), err)
	}
	if left := w.read().Attached; len(left) != 1 {
		t.Errorf("attached %v", left)
	}
}

// TestARequestedAddressWithARouteIsHandedOut asks for an address by number: the route may have been set for the pod.
func TestARequestedAddressWithARouteIsHandedOut(t *testing.T) {
	w := newTestNode(t)
	w.logTo()
	w.uses = usesOf(ipam.Routed, 4)
	w.start(plain("new"))
	got, err := w.addUncached(plain("new"), map[string]any{"args": map[string]any{"cni": map[string]any{"ips": []string{"10.1.0.4"}}}})
	if err != nil || got[0].String() != "10.1.0.4" {
		t.Fatalf("got %v, %v", got, err)
	}
	if l := w.lastLine(); !strings.Contains(fmt.Sprint(l.Notes), "in use") {
		t.Errorf("said %+v", l)
	}
}

// TestAKernelThatDoesNotAnswerFailsNoPod warns once.
func TestAKernelThatDoesNotAnswerFailsNoPod(t *testing.T) {
	w := newTestNode(t)
	w.logTo()
	w.plugin.UseOf = func(netip.Addr) (ipam.Use, error) { return ipam.Unused, errors.New("no socket") }
	w.mustAdd(plain("new"))
	if l := w.lastLine(); l.Outcome != "new" || len(l.Notes) != 1 {
		t.Errorf("said %+v", l)
	}
}
