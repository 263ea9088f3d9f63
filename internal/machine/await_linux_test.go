package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWatchIsTold removes a namespace or a file: each time a descriptor becomes readable, so that no look is needed.
func TestWatchIsTold(t *testing.T) {
	for name, of := range map[string]func(t *testing.T) (path string, files []string, remove func() error){
		"the file of a namespace": func(t *testing.T) (string, []string, func() error) {
			path := filepath.Join(t.TempDir(), "ns")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("/proc/self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			return path, nil, func() error {
				if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
					return err
				}
				return os.Remove(path)
			}
		},
		"a marker": func(t *testing.T) (string, []string, func() error) {
			marker := filepath.Join(t.TempDir(), "marker")
			if err := os.WriteFile(marker, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return "/none/ns", []string{"/none/marker", marker}, func() error { return os.Remove(marker) }
		},
		"the process of a namespace": func(t *testing.T) (string, []string, func() error) {
			cmd := exec.CommandContext(t.Context(), "sleep", "1000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid), nil, func() error { _ = cmd.Process.Kill(); _ = cmd.Wait(); return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, files, remove := of(t)
			fds := watch(path, files)
			t.Cleanup(func() {
				for _, p := range fds {
					_ = unix.Close(int(p.Fd))
				}
			})
			if n, err := unix.Poll(fds, 0); n != 0 || err != nil {
				t.Fatalf("told before the removal: %d, %v", n, err)
			}
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			n := 0
			for n == 0 {
				var err error
				if n, err = unix.Poll(fds, int(time.Minute.Milliseconds())); err != nil && err != unix.EINTR {
					t.Fatal(err)
				}
			}
			if n != 1 {
				t.Fatalf("%d descriptors are readable", n)
			}
			before := len(fds)
			fds = drain(fds)
			if n, err := unix.Poll(fds, 0); n != 0 || err != nil {
				t.Errorf("%d of %d descriptors are still readable, %v", n, before, err)
			}
		})
	}
}

// TestAwaitRemovalEnds waits for what is over, for what ends without a notification, and for what does not end.
func TestAwaitRemovalEnds(t *testing.T) {
	looks := 0
	AwaitRemoval("/none/ns", nil, time.Minute, func() bool { looks++; return true })
	if looks != 1 {
		t.Errorf("%d looks at what is over", looks)
	}
	looks = 0
	AwaitRemoval("/none/ns", nil, time.Minute, func() bool { looks++; return looks == 3 })
	if looks != 3 {
		t.Errorf("%d looks at what ends without a notification", looks)
	}
	looks = 0
	AwaitRemoval("/none/ns", nil, time.Nanosecond, func() bool { looks++; return false })
	if looks == 0 {
		t.Error("no look at what does not end")
	}
}
