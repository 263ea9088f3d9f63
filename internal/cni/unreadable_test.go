package cni_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestUnreadableFileOfHostLocal ends a container while one of host-local's files cannot be
// read. DEL fails only where that file may be the container's own.
func TestUnreadableFileOfHostLocal(t *testing.T) {
	prev := func(a string) map[string]any {
		return map[string]any{"prevResult": map[string]any{"cniVersion": "1.1.0", "ips": []map[string]string{{"address": a + "/29"}}}}
	}
	for name, tc := range map[string]struct {
		more map[string]any
		code uint
		left []string
	}{
		"its container is not known":    {code: types.ErrIOFailure, left: []string{"10.1.0.4", "10.1.0.5"}},
		"it is the container's":         {more: prev("10.1.0.5"), code: types.ErrIOFailure, left: []string{"10.1.0.4", "10.1.0.5"}},
		"the container's was another's": {more: prev("10.1.0.4"), left: []string{"10.1.0.5", "lock"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, state := range []bool{false, true} {
				w := newTestNode(t)
				w.ipam = oneStack
				if state {
					w.mustAdd(plain("first"))
				}
				w.hostLocal("10.1.0.4", "c-web\r\neth0")
				w.hostLocal("10.1.0.5", "c-web\r\neth0")
				w.unreadable("10.1.0.5")
				if err := w.run(w.plugin.Funcs().Del, w.args(plain("web"), tc.more)); codeOf(err) != tc.code {
					t.Errorf("with a state %t: %v, want code %d", state, err, tc.code)
				}
				if diff := cmp.Diff(tc.left, w.hostLocalFiles()); diff != "" {
					t.Errorf("with a state %t: files (-want +got):\n%s", state, diff)
				}
			}
		})
	}
}

// unreadable makes reads of a host-local file fail until the test ends, for root too.
func (w *testNode) unreadable(name string) {
	w.t.Helper()
	path := filepath.Join(w.dir, network, name)
	if os.Getuid() != 0 {
		if err := os.Chmod(path, 0); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	if err := unix.Mount("/proc/self/mem", path, "", unix.MS_BIND, ""); err != nil { // nothing is mapped at 0
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
}
