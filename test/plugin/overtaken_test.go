package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests in this file are about ADDs that get the lock when no runtime waits for them any more.

// TestKilledInterfacePluginTakesNothing kills an interface plugin as a runtime does when its
// time is up, while its child waits for the lock.
func TestKilledInterfacePluginTakesNothing(t *testing.T) {
	node, sandbox := newNetNS(t, "node"), newNetNS(t, "pod")
	dir := t.TempDir()
	kubelet(t, call{verb: "ADD", container: "first", args: pod("web-0", "u"), conf: conf(dir, "1.1.0")})
	release := lockState(t, dir)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	c := call{plugin: lookPath(t, "ptp"), verb: "ADD", container: sandbox.name, netns: sandbox.path, args: pod("web-1", "u"), conf: interfaceConf(dir, "ptp"), interrupted: ctx}
	done := make(chan answer)
	go func() { done <- node.run(t, c, "ADD") }()

	child := waiter(t, dir)
	parent := parentOf(t, child)
	kill()
	eventually(t, "the child has another parent", func() bool { return parentOf(t, child) != parent })
	release()
	<-done
	eventually(t, "the child ends", func() bool { return hasEnded(child) })
	if attached, reserved := read(t, dir); len(attached) != 1 || len(reserved) != 0 {
		t.Errorf("left %v attached, %v reserved", attached, reserved)
	}
	kubelet(t, call{verb: "DEL", container: sandbox.name, args: pod("web-1", "u"), conf: conf(dir, "1.1.0")})
}

// TestDELCancelsAWaitingADD runs the DEL of a container before its ADD, which waits for the
// same lock and whose caller lives.
func TestDELCancelsAWaitingADD(t *testing.T) {
	dir := t.TempDir()
	kubelet(t, call{verb: "ADD", container: "first", args: pod("web-0", "u"), conf: conf(dir, "1.1.0")})
	late := call{verb: "ADD", container: "c", netns: "/none", args: pod("web-1", "u"), conf: conf(dir, "1.1.0")}
	for _, deleted := range []string{"c", "another"} {
		release := lockState(t, dir)
		done := make(chan answer)
		go func() { done <- late.run(t) }()
		pid := waiter(t, dir)
		signal(t, pid, unix.SIGSTOP) // else either could be the first
		eventually(t, "the ADD is out of the queue", func() bool { return len(waiters(t, dir)) == 0 })
		release()
		kubelet(t, call{verb: "DEL", container: deleted, args: pod("web-1", "u"), conf: conf(dir, "1.1.0")})
		signal(t, pid, unix.SIGCONT)
		a := <-done
		attached, _ := read(t, dir)
		_, has := attached["c"]
		if want := deleted != "c"; has != want || (a.exit == 0) != want || (!want && a.Code != 11) {
			t.Errorf("ADD after the DEL of %s: %s%s; attached: %t", deleted, a.stdout, a.stderr, has)
		}
	}
	late.verb = "DEL"
	kubelet(t, late)
	late.verb = "ADD" // a runtime may use the name of a container again
	kubelet(t, late)
	if words, err := filepath.Glob(filepath.Join(dir, ".pending", "*")); err != nil || len(words) > 0 {
		t.Errorf("left %v, %v", words, err)
	}
}

// lockState keeps all verbs waiting until release is called.
func lockState(t *testing.T, dir string) (release func()) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "limpet.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// waiter returns the process that waits for the lock of the state, once there is one.
func waiter(t *testing.T, dir string) (pid int) {
	t.Helper()
	eventually(t, "a verb waits for the lock", func() bool {
		all := waiters(t, dir)
		if len(all) > 0 {
			pid = all[0]
		}
		return len(all) > 0
	})
	return pid
}

// waiters lists the processes that wait for the lock, of which the kernel writes
// "1: -> FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF".
func waiters(t *testing.T, dir string) []int {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "limpet.lock"), &st); err != nil {
		t.Fatal(err)
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for line := range strings.Lines(string(locks)) {
		f := strings.Fields(line)
		if len(f) < 7 || f[1] != "->" || !strings.HasSuffix(f[6], fmt.Sprintf(":%d", st.Ino)) {
			continue
		}
		pid, err := strconv.Atoi(f[5])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// statOf returns what the kernel says of a process behind its name: state, parent, and more.
func statOf(pid int) ([]string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return strings.Fields(string(after)), err
}

func parentOf(t *testing.T, pid int) string {
	t.Helper()
	stat, err := statOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	return stat[1]
}

// hasEnded reports whether a process is gone, or waits for its parent to read its exit code.
func hasEnded(pid int) bool {
	stat, err := statOf(pid)
	return err != nil || stat[0] == "Z"
}

func signal(t *testing.T, pid int, s unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what must come.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestParentThatIsGoneAtTheStart runs an ADD whose parent has ended before: nothing reads the
// answer, although the process has seen only one parent.
func TestParentThatIsGoneAtTheStart(t *testing.T) {
	dir := t.TempDir()
	kubelet(t, call{verb: "ADD", container: "first", args: pod("web-0", "u"), conf: conf(dir, "1.1.0")})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	stdin, err := json.Marshal(conf(dir, "1.1.0"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = []string{
		"CNI_COMMAND=ADD", "CNI_CONTAINERID=late", "CNI_IFNAME=eth0", "CNI_NETNS=/none", "CNI_ARGS=" + pod("web-1", "u"), "CNI_PATH=" + cniPath,
	}
	cmd.Stdin, cmd.Stdout = bytes.NewReader(stdin), w
	if err := cmd.Run(); err == nil {
		t.Error("ADD succeeded")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if attached, reserved := read(t, dir); len(attached) != 1 || len(reserved) != 0 {
		t.Errorf("left %v attached, %v reserved", attached, reserved)
	}
}

// processWith returns the process that runs a program with a variable in its environment.
func processWith(t *testing.T, variable, program string) (pid int) {
	t.Helper()
	eventually(t, "a process has "+variable, func() bool {
		entries, err := os.ReadDir("/proc")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			id, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			dir := filepath.Join("/proc", e.Name())
			env, _ := os.ReadFile(filepath.Join(dir, "environ")) // the process may have ended
			exe, _ := os.Readlink(filepath.Join(dir, "exe"))
			runs := filepath.Base(exe) == filepath.Base(program) || emulator != "" && exe == emulator
			if runs && bytes.Contains(env, []byte(variable+"\x00")) {
				pid = id
			}
		}
		return pid > 0
	})
	return pid
}
