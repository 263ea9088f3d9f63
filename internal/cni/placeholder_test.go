package cni_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOldPodWithAPlaceholderComesBack ends a pod that host-local started. When the state was
// rebuilt, only the pod's namespace showed the address.
func TestOldPodWithAPlaceholderComesBack(t *testing.T) {
	w := newTestNode(t)
	w.ipam = oneStack
	w.mustAdd(plain("first"))
	w.hostLocal("10.1.0.5", "c-web\r\neth0")
	s := lostSandbox("web", true)
	w.start(s)
	w.recovery.Interfaces = w.interfaces(map[string][]netip.Addr{s.pod: ips("10.1.0.5")}, s)
	w.damage(overwrite(0, 1<<20, 0))
	w.mustAdd(plain("other"))
	if err := w.del(s); err != nil {
		t.Fatal(err)
	}
	delete(w.netns, s.netns())
	if diff := cmp.Diff([]string{"lock"}, w.hostLocalFiles()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got := w.mustAdd(next(s)); !slices.Equal(got, ips("10.1.0.5")) {
		t.Errorf("came back to %v", got)
	}
}

// TestMirrorOfAnUnknownContainer is what a kill between the file and the commit leaves.
func TestMirrorOfAnUnknownContainer(t *testing.T) {
	for name, verb := range map[string]func(*testNode) error{
		"DEL": func(w *testNode) error { return w.del(plain("web")) },
		"GC": func(w *testNode) error {
			return w.plugin.Funcs().GC(w.args(plain("x"), map[string]any{"cni.dev/valid-attachments": []map[string]string{{"containerID": "c-first", "ifname": "eth0"}}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.ipam = map[string]any{"mirrorHostLocal": true, "ranges": oneStack["ranges"]}
			w.mustAdd(plain("first"))
			w.hostLocal("10.1.0.5", "c-web\r\neth0\n")
			if err := verb(w); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"10.1.0.2"}, w.hostLocalFiles()); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}
