package cni_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/machine"
)

// TestRequestedAddressIsReclaimed asks by number for an address whose holder is gone without a DEL, and for
// an address whose holder is there.
func TestRequestedAddressIsReclaimed(t *testing.T) {
	found := func(w *testNode, pods ...string) {
		var there []machine.Interface
		for _, pod := range pods {
			w.start(plain(pod))
			there = append(there, machine.Interface{NetNS: w.netns[plain(pod).netns()], Name: "eth0", Addresses: ips("10.1.0.5", "fd00:1::5")})
		}
		w.recovery.Interfaces = func() ([]machine.Interface, error) {
			return slices.DeleteFunc(slices.Clone(there), func(i machine.Interface) bool { return w.netns[i.NetNS.Path] != i.NetNS }), nil
		}
		w.mustAdd(plain("first"))
		w.damage(func(path string) error { return os.Truncate(path, 0) })
		w.mustAdd(plain("second"))
		delete(w.netns, plain("gone").netns())
	}
	for name, tc := range map[string]struct {
		before func(w *testNode)
		held   bool
	}{
		"free": {before: func(*testNode) {}},
		"of a namespace that a rebuilt state found":              {before: func(w *testNode) { found(w, "running") }, held: true},
		"of one that is gone by now":                             {before: func(w *testNode) { found(w, "gone") }},
		"of one that is gone, and another has it too":            {before: func(w *testNode) { found(w, "gone", "running") }, held: true},
		"of a host-local file without a container":               {before: func(w *testNode) { w.hostLocal("10.1.0.5", ""); w.pass(time.Hour) }},
		"of a mirrored file whose container the state forgot":    {before: func(w *testNode) { w.mustAdd(plain("first")); w.hostLocal("10.1.0.5", "c-gone\r\neth0\n") }},
		"of a container of host-local's":                         {before: func(w *testNode) { w.hostLocal("10.1.0.5", "c-old\r\neth0") }, held: true},
		"of a reservation that has lapsed":                       {before: func(w *testNode) { w.reserve("10.1.0.5"); w.pass(time.Hour) }},
		"of a reservation, which gives way only to who has none": {before: func(w *testNode) { w.reserve("10.1.0.5") }, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			tc.before(w)
			got, err := w.addUncached(plain("web"), wants("10.1.0.5"))
			if tc.held && codeOf(err) != cni.CodeRequested || !tc.held && (err != nil || !slices.Contains(got, ips("10.1.0.5")[0])) {
				t.Errorf("got %v, %v; held: %t", got, err, tc.held)
			}
		})
	}
}

func wants(addr string) map[string]any {
	return map[string]any{"runtimeConfig": map[string]any{"ips": []string{addr}}}
}

// reserve starts and ends a pod with an address and a retention of ten minutes.
func (w *testNode) reserve(addr string) {
	w.t.Helper()
	s, conf := lostSandbox("gone", true), wants(addr)
	conf["runtimeConfig"].(map[string]any)["io.kubernetes.cri.pod-annotations"] = s.annotations
	if _, err := w.addUncached(s, conf); err != nil {
		w.t.Fatal(err)
	}
	w.cache(s)
	w.mustDel(s)
}
