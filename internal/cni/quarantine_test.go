package cni_test

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestAnyNetworkMayRebuild rebuilds the state with a verb of another network, whose
// configuration says nothing of the running pod's network.
func TestAnyNetworkMayRebuild(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", false)
	w.start(s)
	was := w.mustAdd(s) // its cache entry has no addresses
	w.recovery.Interfaces = w.interfaces(map[string][]netip.Addr{s.pod: was}, s)
	w.damage(overwrite(0, 1<<20, 0))
	if err := w.run(w.plugin.Funcs().Del, w.args(lostSandbox("other", false), map[string]any{"name": "netb"})); err != nil {
		t.Fatal(err)
	}
	for i, given := 0, []netip.Addr{}; ; i++ {
		n := lostSandbox("new-"+string(rune('a'+i)), false)
		addrs, err := w.add(n)
		if err != nil {
			break // the range is exhausted
		}
		if given = append(given, addrs...); slices.ContainsFunc(was, func(a netip.Addr) bool { return slices.Contains(given, a) }) {
			t.Fatalf("%s got %v of a pod that runs", n.pod, addrs)
		}
	}
	delete(w.netns, s.netns())
	if addrs := w.mustAdd(lostSandbox("last", false)); addrs[0] != was[0] {
		t.Errorf("got %v, want %v, whose namespace is gone", addrs, was)
	}
}

// TestUnknownAddressesAreQuarantinedOnce shows that only the first ADD of a network reads the
// namespaces.
func TestUnknownAddressesAreQuarantinedOnce(t *testing.T) {
	w := newTestNode(t)
	looks := 0
	look := w.interfaces(nil)
	w.recovery.Interfaces = func() ([]machine.Interface, error) { looks++; return look() }
	w.mustAdd(lostSandbox("a", false))
	w.mustAdd(lostSandbox("a2", false))
	if looks != 1 {
		t.Errorf("a new node was searched %d times, want once", looks)
	}
	w.damage(overwrite(0, 1<<20, 0))
	w.mustAdd(lostSandbox("b", false))
	looks = 0
	w.mustAdd(lostSandbox("c", false))
	if looks != 0 {
		t.Errorf("searched %d times more", looks)
	}
}

// TestAKernelThatDoesNotAnswer has a state lost or not yet made while nothing can look into the namespaces: no state is made that
// does not see them.
func TestAKernelThatDoesNotAnswer(t *testing.T) {
	for name, before := range map[string]func(*testNode){
		"a new node":   func(w *testNode) {},
		"a lost state": func(w *testNode) { w.mustAdd(plain("first")); w.damage(overwrite(0, 1<<20, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), plain("web")
			before(w)
			w.start(s)
			look := w.interfaces(map[string][]netip.Addr{s.pod: ips("10.1.0.3", "fd00:1::3")}, s)
			w.recovery.Interfaces = func() ([]machine.Interface, error) { return nil, os.ErrDeadlineExceeded }
			if addrs, err := w.add(plain("second")); err == nil {
				t.Errorf("an ADD got %v", addrs)
			}
			w.recovery.Interfaces = look
			if addrs := w.mustAdd(plain("second")); addrs[0].String() == "10.1.0.3" {
				t.Error("an ADD got an address that a namespace has")
			}
		})
	}
}

// TestDELEndsAPlaceholder frees a placeholder with the DEL that names its namespace.
func TestDELEndsAPlaceholder(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", false)
	w.start(s)
	was := w.mustAdd(s)
	w.recovery.Interfaces = w.interfaces(map[string][]netip.Addr{s.pod: was}, s)
	w.damage(overwrite(0, 1<<20, 0))
	w.mustAdd(lostSandbox("other", false))
	id := s.attachment()
	id.ContainerID = reservation.NetNSPlaceholder(w.netns[s.netns()])
	if a := w.read().Attached[id]; !slices.Equal(a.Addresses, was) {
		t.Fatalf("held %v, want %v", a.Addresses, was)
	}
	if err := w.del(s); err != nil { // its namespace is still there
		t.Fatal(err)
	}
	if a, held := w.read().Attached[id]; held {
		t.Errorf("%v is held after the DEL", a.Addresses)
	}
}

// TestInterfaceWithOneAddressTwice has an interface with one address under two masks.
func TestInterfaceWithOneAddressTwice(t *testing.T) {
	for name, lose := range map[string]func(*testNode) error{
		"the network of the pod rebuilds": func(*testNode) error { return nil },
		"another one does": func(w *testNode) error {
			return w.run(w.plugin.Funcs().Del, w.args(lostSandbox("other", false), map[string]any{"name": "netb"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			s := lostSandbox("web", false)
			w.start(s)
			was := w.mustAdd(s)
			w.recovery.Interfaces = w.interfaces(map[string][]netip.Addr{s.pod: slices.Concat(was, was)}, s)
			w.damage(overwrite(0, 1<<20, 0))
			if err := lose(w); err != nil {
				t.Fatal(err)
			}
			if got := w.mustAdd(lostSandbox("other", false)); slices.Contains(got, was[0]) {
				t.Errorf("got %v, which a pod has", got)
			}
		})
	}
}
