package plugin_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadOnlyState makes the file system of the state read-only, as errors do. Verbs that only
// read work, ADD fails, and a pod ends where its address is freed later.
func TestReadOnlyState(t *testing.T) {
	for name, unlocked := range map[string]bool{"with its lock file": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			web := call{container: "c-web", args: pod("web", "u1"), conf: conf(dir, "1.1.0")}
			web.conf = withPrevious(conf(dir, "1.1.0"), web.as(t, "ADD", 0).addrs())
			kept := call{container: "c-kept", args: pod("kept", "u0"), conf: conf(dir, "1.1.0")}
			had := kept.as(t, "ADD", 0).addrs()
			kept.conf = withPrevious(conf(dir, "1.1.0"), had)
			kept.as(t, "DEL", 0)
			old := filepath.Join(dir, "net", "10.1.2.99") // of host-local's time
			if err := errors.Join(os.Mkdir(filepath.Dir(old), 0o755), os.WriteFile(old, []byte("c-old\r\neth0"), 0o600)); err != nil {
				t.Fatal(err)
			}
			if unlocked {
				if err := os.Remove(filepath.Join(dir, "limpet.lock")); err != nil {
					t.Fatal(err)
				}
			}
			again := readOnly(t, dir)

			for _, args := range []string{"list", "show ns/web", "check"} {
				if out := tool(t, 0, dir, args); !strings.Contains(out, "web") && !strings.Contains(out, "sound") {
					t.Errorf("%s: %s", args, out)
				}
			}
			for _, args := range []string{"release " + had[0].String(), "compact"} {
				tool(t, 2, dir, args)
			}
			web.as(t, "STATUS", 0)
			web.as(t, "CHECK", 0)
			call{container: "c-new", args: pod("new", "u2"), conf: conf(dir, "1.1.0")}.as(t, "ADD", 5)
			call{container: "c-gone", args: pod("gone", "u3"), conf: conf(dir, "1.1.0")}.as(t, "DEL", 0)
			call{container: "c-old", args: pod("old", "u4"), conf: conf(dir, "1.1.0")}.as(t, "DEL", 5) // nothing frees it later
			for range 2 {
				if a := web.as(t, "DEL", 0); !strings.Contains(a.stderr, "read-only file system") {
					t.Errorf("DEL does not say why it left the address: %q", a.stderr)
				}
			}

			again()
			if attached, reserved := read(t, dir); len(attached) != 1 || len(reserved) != 1 {
				t.Errorf("attached %v, reserved %v; want what was before", attached, reserved)
			}
			web.as(t, "DEL", 0) // which is repeated, or else the agent finds the namespace gone
			call{container: "c-old", args: pod("old", "u4"), conf: conf(dir, "1.1.0")}.as(t, "DEL", 0)
			if attached, reserved := read(t, dir); len(attached) != 0 || len(reserved) != 3 {
				t.Errorf("attached %v, reserved %v; want the addresses of all pods reserved", attached, reserved)
			}
		})
	}
}

// TestReadOnlyNewNode has no state to read, and a file system that takes no writes.
func TestReadOnlyNewNode(t *testing.T) {
	dir := t.TempDir()
	readOnly(t, dir)
	c := call{container: "c", args: pod("web", "u1"), conf: conf(dir, "1.1.0")}
	c.as(t, "ADD", 5)
	c.as(t, "DEL", 0)
	c.as(t, "STATUS", 0)
	tool(t, 2, dir, "list")
}

// as runs a verb and wants it to end with a code, 0 for success.
func (c call) as(t *testing.T, verb string, want uint) answer {
	t.Helper()
	c.verb, c.netns = verb, "/nowhere"
	a := c.run(t)
	if a.Code != want || (a.exit == 0) != (want == 0) {
		t.Errorf("%s of %s: exit %d, %s%s; want code %d", verb, c.container, a.exit, a.stdout, a.stderr, want)
	}
	return a
}

// readOnly makes a directory read-only until the function that it returns is called.
func readOnly(t *testing.T, dir string) (again func()) {
	t.Helper()
	err := errors.Join(
		unix.Mount(dir, dir, "", unix.MS_BIND, ""),
		unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""),
	)
	if err != nil {
		t.Fatal(err)
	}
	again = func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }
	t.Cleanup(again)
	return again
}

// tool runs limpet-ipam by hand and wants it to end so.
func tool(t *testing.T, want int, dir, args string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append(strings.Fields(args), "--data-dir", dir)...)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("%s ends with %d, want %d:\n%s", args, got, want, out)
	}
	return string(out)
}
