package cni_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/machine"
)

// TestARepeatedADDTakesNoSecondAddress repeats the ADD of a container that has its address
// already, from limpet-ipam or another plugin.
func TestARepeatedADDTakesNoSecondAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(w *testNode, s sandbox)
		holder string // named by the error; the container where empty
	}{
		"an ADD of ours": {before: func(w *testNode, s sandbox) { w.mustAdd(s) }},
		"one that host-local answered": {before: func(w *testNode, s sandbox) {
			w.hostLocal("fd00:1::2", s.id+"\r\neth0")
			w.hostLocal("10.1.0.2", s.id+"\r\neth0")
		}},
		"one that a host-local of before 2018 answered": {before: func(w *testNode, s sandbox) { w.hostLocal("10.1.0.2", s.id) }},
		"one that OpenKruise's host-local answered": {before: func(w *testNode, s sandbox) {
			w.hostLocal("10.1.0.2", "an-earlier-life\r\neth0")
			w.forkRecord(s.pod, `{"containerId":"`+s.id+`","ifName":"eth0","IPConf":{"address":"10.1.0.2/29"},"duration":5}`)
		}},
		"one that libcni's cache tells of, on a node without a state": {before: func(w *testNode, s sandbox) {
			w.cacheWhole(s, ips("10.1.0.2", "fd00:1::2"))
		}},
		"one of which a rebuilt state knows the namespace only": {holder: "netns:/netns/c-web", before: func(w *testNode, s sandbox) {
			w.recovery.Interfaces = func() ([]machine.Interface, error) {
				return []machine.Interface{{NetNS: w.netns[s.netns()], Name: "eth0", Addresses: ips("10.1.0.2", "fd00:1::2")}}, nil
			}
			w.mustAdd(plain("neighbour"))
			w.damage(func(path string) error { return os.Truncate(path, 0) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), lostSandbox("web", true)
			w.start(s)
			tc.before(w, s)
			if err := os.MkdirAll(filepath.Join(w.dir, network), 0o755); err != nil {
				t.Fatal(err)
			}
			before := w.hostLocalFiles()
			holder := s.id
			if tc.holder != "" {
				holder = tc.holder
			}
			for range 2 {
				addrs, err := w.addUncached(s, nil)
				if codeOf(err) != cni.CodeDuplicate {
					t.Fatalf("the ADD answered %v and %v, want code %d", addrs, err, cni.CodeDuplicate)
				}
				if want := "failed to allocate for range 0: 10.1.0.2 has been allocated to " + holder + ", duplicate allocation is not allowed"; err.Error() != want {
					t.Errorf("the ADD answered %q, want %q", err, want)
				}
			}
			if diff := cmp.Diff(before, w.hostLocalFiles()); diff != "" {
				t.Errorf("host-local's files (-before +after):\n%s", diff)
			}
			if err := w.del(s); err != nil {
				t.Fatal(err)
			}
			w.recovery.Interfaces = nil
			w.mustAdd(s) // the container ended, its name may be used again
		})
	}
}
