package crash_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDiskFull starts pods until the disk is full, or until other files have filled the disk. An ADD without disk space
// changes nothing. All DELs succeed, and every pod gets its address back.
func TestDiskFull(t *testing.T) {
	for name, tc := range map[string]struct {
		size  string
		pods  int
		whole bool
	}{
		"other files fill the disk after the state allocated its space": {size: "3700k", pods: 100, whole: true},
		"the disk is small from the beginning":                          {size: "300k", pods: 500},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size="+tc.size); err != nil {
				t.Fatalf("mount: %v (root is needed)", err)
			}
			t.Cleanup(func() { _ = unix.Unmount(root, unix.MNT_DETACH) })
			dir := filepath.Join(root, "state")
			had := start(t, dir, tc.pods)
			if (len(had) == tc.pods) != tc.whole {
				t.Fatalf("%d pods have started", len(had))
			}
			if err := os.WriteFile(filepath.Join(root, "the last bytes"), make([]byte, 4<<20), 0o600); err == nil {
				t.Fatal("the disk is not full")
			}
			for pod := range had {
				if a, err := call(dir, "DEL", life{pod, 0}, had[pod]).Run(t.Context()); err != nil || a.Exit != 0 {
					t.Fatalf("DEL of %d: %v, %s", pod, err, a.Stdout)
				}
			}
			ended, err := read(t.Context(), dir, nil)
			if err != nil || len(ended.attached)+len(ended.reserved) != len(had) || (len(ended.attached) == 0) != tc.whole {
				t.Fatalf("after the DELs: %v\n%s", err, ended)
			}
			if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_REMOUNT, "size=9m"); err != nil {
				t.Fatal(err)
			}
			for pod := range had {
				a, err := call(dir, "ADD", life{pod, 1}, nil).Run(t.Context())
				if err != nil || !slices.Equal(addresses(a.Stdout), had[pod]) {
					t.Fatalf("pod %d came back to %s, %v; had %v", pod, a.Stdout, err, had[pod])
				}
			}
		})
	}
}

// start starts pods until the disk is full. The state holds exactly the pods whose ADD succeeded.
func start(t *testing.T, dir string, pods int) map[int][]netip.Addr {
	t.Helper()
	had := map[int][]netip.Addr{}
	for pod := range pods {
		a, err := call(dir, "ADD", life{pod, 0}, nil).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a.Exit != 0 {
			if !strings.Contains(string(a.Stdout), "no space left on device") {
				t.Fatalf("ADD: %s", a.Stdout)
			}
			break
		}
		had[pod] = addresses(a.Stdout)
	}
	full, err := read(t.Context(), dir, nil)
	if err != nil || len(full.attached) != len(had) || len(had) < 20 {
		t.Fatalf("%d pods were told their addresses, %v:\n%s", len(had), err, full)
	}
	return had
}
