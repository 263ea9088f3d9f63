package ipamtool_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/ipamtool"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/persistence/flock"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestList(t *testing.T) {
	n := newNode(t)
	n.fill()
	n.golden("list.txt", "list", "list --network dmz", "list -o json --network dmz", "list --network none", "list --network none -o json")
}

// lockingReader takes the exclusive lock of a state for each text that it gets, as a verb does.
type lockingReader struct {
	n    node
	text bytes.Buffer
}

func (r *lockingReader) Write(text []byte) (int, error) {
	l, err := flock.Lock(r.n.Context(), filepath.Join(r.n.dir, "limpet.lock"), unix.LOCK_EX, time.Second)
	if err != nil {
		return 0, err
	}
	r.text.Write(text)
	return len(text), l.Close()
}

// TestListKeepsNoLockWithoutACopy lists a state whose file seems larger than the disk, so that there is no room for a copy.
func TestListKeepsNoLockWithoutACopy(t *testing.T) {
	n := newNode(t)
	n.fill()
	want, _ := n.on("list")
	var disk unix.Statfs_t
	if err := unix.Statfs(n.dir, &disk); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(n.dir, "limpet.db"), 2*int64(disk.Bavail)*disk.Bsize); err != nil { // without blocks
		t.Fatal(err)
	}
	err := n.store.Snapshot(t.Context(), func(_ *persistence.Tx, locked bool) error {
		if !locked {
			t.Error("there is room for a copy")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &lockingReader{n: n}
	tool := ipamtool.Tool{Now: func() reservation.Moment { return n.now }, NetNS: machine.StatNetNS, Stdout: r, Stderr: r}
	if exit := tool.Run(t.Context(), []string{"list", "--data-dir", n.dir}); exit != ipamtool.ExitDone || r.text.String() != want {
		t.Errorf("exit %d: %s, want %s", exit, &r.text, want)
	}
}

func TestShow(t *testing.T) {
	n := newNode(t)
	n.fill()
	n.golden("show.txt", "show 10.244.0.5", "show fd00::c", "show default/web-1", "show default/web-2", "show cc", "show default/db-1",
		"show --network dmz default/web-1", "show 10.244.0.99", "show fd00::5 -o json",
		"show web-0", "show prod/web-0", "show 10.244.0.12/24", "show 10.244.0.99/24", "release web-2")
}

func TestWrongCalls(t *testing.T) {
	n := newNode(t)
	n.fill()
	n.golden("usage.txt", "lsit", "list web-0", "show", "show 10.0.0.1 10.0.0.2", "list -o yaml", "list --colour", "help lsit")
}

// TestHelpNamesEveryCommandWithAnExample runs each command with --help, without a state.
func TestHelpNamesEveryCommandWithAnExample(t *testing.T) {
	n := newNode(t)
	all, exit := n.run("--help")
	if exit != ipamtool.ExitDone {
		t.Errorf("help ends with %d", exit)
	}
	for _, command := range []string{"list", "show", "check", "release", "compact"} {
		if !strings.Contains(all, "\n  "+command+" ") {
			t.Errorf("help does not name %s:\n%s", command, all)
		}
		out, exit := n.run(command, "--help")
		if exit != ipamtool.ExitDone || !strings.Contains(out, "\nExample:\n  limpet-ipam "+command) || !strings.Contains(out, "--data-dir directory") {
			t.Errorf("%s --help ends with %d:\n%s", command, exit, out)
		}
	}
}

// TestReadingCreatesNothing reads in directories without a state, and with a lost state: no file is created.
func TestReadingCreatesNothing(t *testing.T) {
	n := newNode(t)
	asked := func() {
		t.Helper()
		for _, call := range [][]string{{"list"}, {"show", "10.0.0.1"}, {"check"}, {"release", "10.0.0.1"}, {"release", "10.0.0.1", "--dry-run"}, {"compact"}} {
			if out, exit := n.on(call...); exit != ipamtool.ExitFailed || !strings.Contains(out, "no state was created yet") {
				t.Errorf("%v without a state ends with %d: %s", call, exit, out)
			}
		}
	}
	asked()
	if _, err := os.Stat(n.dir); err == nil {
		t.Error("a directory was created")
	}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	asked()
	if files, err := os.ReadDir(n.dir); err != nil || len(files) > 0 {
		t.Errorf("%v was created in a directory without a state, %v", files, err)
	}
	n.must(func(*persistence.Tx) error { return nil })
	if err := os.Remove(filepath.Join(n.dir, "limpet.db")); err != nil {
		t.Fatal(err)
	}
	if out, exit := n.on("list"); exit != ipamtool.ExitFailed || !strings.Contains(out, "rebuilds it") {
		t.Errorf("with a lost state: %d %s", exit, out)
	}
	if _, err := os.Stat(filepath.Join(n.dir, "limpet.db")); err == nil {
		t.Error("list rebuilt a lost state")
	}
}

// TestRuntimeWithArgumentsGetsThePlugin runs the plugin with CNI_COMMAND and an argument: it answers as a plugin.
func TestRuntimeWithArgumentsGetsThePlugin(t *testing.T) {
	n := newNode(t)
	out, _ := n.withEnv([]string{"CNI_COMMAND=VERSION"}, `{"cniVersion":"1.1.0"}`, "list")
	if !strings.Contains(out, "supportedVersions") {
		t.Errorf("VERSION answers %s", out)
	}
}

// TestTimeLeft lists a reservation at different times.
func TestTimeLeft(t *testing.T) {
	n := newNode(t)
	r := n.reservation("web-0", "aa", "10.0.0.1")
	r.Deadline = reservation.Deadline{From: n.now, For: 10 * time.Minute}
	n.must(func(tx *persistence.Tx) error { return tx.PutReservation(r) })
	for name, tc := range map[string]struct {
		passed time.Duration
		want   string
	}{
		"at once it is all of it":           {0, "10m"},
		"minutes come with seconds":         {30 * time.Second, "9m30s"},
		"what began counts as a second":     {10*time.Minute - time.Millisecond, "1s"},
		"at the deadline nothing is left":   {10 * time.Minute, "lapsed"},
		"a clock that steps back adds none": {-time.Hour, "10m"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tool := ipamtool.Tool{Now: func() reservation.Moment { return n.ago(-tc.passed) }, Stdout: &out, Stderr: &out}
			if exit := tool.Run(t.Context(), []string{"list", "--data-dir", n.dir}); exit != ipamtool.ExitDone {
				t.Fatalf("exit %d: %s", exit, &out)
			}
			fields := strings.Fields(strings.Split(out.String(), "\n")[1])
			if got := fields[len(fields)-2]; got != tc.want {
				t.Errorf("%s left, want %s", got, tc.want)
			}
		})
	}
}
