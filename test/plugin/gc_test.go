package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGCGoesOnPastAnError collects containers of limpet-ipam and of host-local, and one
// of each has a file that cannot be removed.
func TestGCGoesOnPastAnError(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ which, plugin, container string }{
		{"limpet-ipam", binary, "a"},
		{"limpet-ipam", binary, "b"},
		{"host-local", hostLocal(), "c"},
		{"host-local", hostLocal(), "d"},
	} {
		kubelet(t, call{plugin: c.plugin, verb: "ADD", container: c.container, conf: shared(dir, c.which)})
	}
	stuck := map[string]bool{}
	for _, addr := range []string{"10.1.2.2", "10.1.2.4"} { // of a and of c
		file := filepath.Join(dir, "net", addr)
		if err := unix.Mount(file, file, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(file, unix.MNT_DETACH) })
		stuck[file] = true
	}
	conf := shared(dir, "limpet-ipam")
	conf["cniVersion"], conf["cni.dev/valid-attachments"] = "1.1.0", nil
	a := call{verb: "GC", conf: conf}.run(t)
	if a.exit == 0 || a.Code != 5 {
		t.Errorf("GC: exit %d, %s; want code 5", a.exit, a.stdout)
	}
	for file := range stuck {
		if !strings.Contains(a.Msg, file) {
			t.Errorf("GC does not name %s: %s", file, a.Msg)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "net", "10.*"))
	if err != nil || len(files) != len(stuck) {
		t.Errorf("left %v, %v; want those that cannot be removed", files, err)
	}
	if attached, _ := read(t, dir); len(attached) != 0 {
		t.Errorf("left %v attached", attached)
	}
	for file := range stuck {
		if err := unix.Unmount(file, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	if a := (call{verb: "GC", conf: conf}).run(t); a.exit != 0 {
		t.Errorf("GC once nothing is in the way: %s", a.stdout)
	}
}
