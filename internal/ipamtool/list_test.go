package ipamtool_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/ipamtool"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestList(t *testing.T) {
	n := newNode(t)
	n.fill()
	n.golden("list.txt", "list", "list --network dmz", "list -o json --network dmz", "list --network none", "list --network none -o json")
}

// busyReader changes the state and folds the journal for each text that it gets.
type busyReader struct {
	n     node
	text  bytes.Buffer
	times int
}

func (r *busyReader) Write(text []byte) (int, error) {
	r.text.Write(text)
	r.times++
	err := r.n.store.Update(r.n.Context(), func(tx *persistence.Tx) error {
		return tx.PutAttachment(r.n.attachment(fmt.Sprintf("new-%d", r.times), fmt.Sprintf("%04x", r.times), fmt.Sprintf("10.9.0.%d", r.times)))
	})
	for range 2 {
		if err == nil {
			_, _, err = r.n.store.Compact(r.n.Context())
		}
	}
	return len(text), err
}

// TestListKeepsNoLock lists a state that changes, and whose journal is folded, while a slow reader takes the list: it is that
// of the beginning, and no verb waits.
func TestListKeepsNoLock(t *testing.T) {
	n := newNode(t)
	n.fill()
	n.must(func(tx *persistence.Tx) (err error) {
		for i := range 200 {
			err = errors.Join(err, tx.PutAttachment(n.attachment(fmt.Sprintf("more-%d", i), fmt.Sprintf("ab%04x", i), fmt.Sprintf("10.8.0.%d", i+1))))
		}
		return err
	})
	want, _ := n.on("list")
	n.store = persistence.New(persistence.Options{Dir: n.dir, LockWait: time.Second})
	r := &busyReader{n: n}
	tool := ipamtool.Tool{Now: func() reservation.Moment { return n.now }, NetNS: machine.StatNetNS, Stdout: r, Stderr: r}
	if exit := tool.Run(t.Context(), []string{"list", "--data-dir", n.dir}); exit != ipamtool.ExitDone || r.text.String() != want || r.times < 3 {
		t.Errorf("exit %d, %d texts: %s, want %s", exit, r.times, &r.text, want)
	}
}

// TestListInParts lists more holders than are sorted at once: each of them is there, below one head and in one list.
func TestListInParts(t *testing.T) {
	n := newNode(t)
	const all = 6000
	n.must(func(tx *persistence.Tx) (err error) {
		for i := range all {
			err = errors.Join(err, tx.PutAttachment(n.attachment(fmt.Sprintf("web-%d", i), fmt.Sprintf("ab%04x", i), fmt.Sprintf("10.%d.%d.1", i/250, i%250))))
		}
		return err
	})
	text, _ := n.on("list")
	if rows := strings.Count(text, "\n"); rows != 1+all || strings.Count(text, "NETWORK") != 1 {
		t.Errorf("%d rows, head %q", rows, text[:100])
	}
	text, _ = n.on("list", "-o", "json")
	var holders []ipamtool.Holder
	if err := json.Unmarshal([]byte(text), &holders); err != nil || len(holders) != all {
		t.Errorf("%d holders, %v", len(holders), err)
	}
	pods := map[string]bool{}
	for _, h := range holders {
		pods[h.Pod] = true
	}
	if len(pods) != all || !holders[0].IPs[0].Less(holders[1].IPs[0]) {
		t.Errorf("%d pods; %s, %s", len(pods), holders[0].IPs, holders[1].IPs)
	}
}

// showing are commands that change nothing.
var showing = []string{"list", "list -o json", "show 10.244.0.5", "check", "release default/web-2 --dry-run"}

// TestStatesAreShown shows a state that waits in the journal, and one that is folded, each also in a directory that cannot be
// written. Nothing is changed.
func TestStatesAreShown(t *testing.T) {
	want := map[string]string{}
	for _, tc := range []struct {
		name string
		make func(n node) error
	}{
		{"in the journal", func(node) error { return nil }},
		{"folded", func(n node) error { _, _, err := n.store.Compact(t.Context()); return err }},
	} {
		for _, readOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, read-only %t", tc.name, readOnly), func(t *testing.T) {
				n := newNode(t)
				n.fill()
				n.file(tc.make(n))
				if readOnly {
					n.readOnly()
				}
				before := n.content()
				for _, call := range showing {
					out, exit := n.on(strings.Fields(call)...)
					out = sizes.ReplaceAllString(n.steady(out), "SIZE")
					if want[call] == "" {
						want[call] = out
					}
					if exit != ipamtool.ExitDone || out != want[call] {
						t.Errorf("%s: exit %d: %s, want %s", call, exit, out, want[call])
					}
				}
				if diff := cmp.Diff(before, n.content()); diff != "" {
					t.Error("the state was changed")
				}
			})
		}
	}
}

// sizes are sizes of files.
var sizes = regexp.MustCompile(`[0-9.]+ [KM]iB`)

// readOnly makes the directory of the state read-only until the test ends, for root too.
func (n node) readOnly() {
	n.Helper()
	if os.Getuid() != 0 {
		n.Skip("needs root")
	}
	n.file(unix.Mount(n.dir, n.dir, "", unix.MS_BIND, ""))
	n.Cleanup(func() { _ = unix.Unmount(n.dir, unix.MNT_DETACH) })
	n.file(unix.Mount("", n.dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
}

// TestListNamesTheDamagedFile damages each file that list reads.
func TestListNamesTheDamagedFile(t *testing.T) {
	for _, folds := range []int{0, 1} {
		for _, which := range []func(node) string{node.fold, node.journal} {
			n := newNode(t)
			n.fill()
			for range folds {
				_, _, err := n.store.Compact(t.Context())
				n.file(err)
			}
			path := which(n)
			n.flip(path, 33)
			before := n.content()
			out, exit := n.on("list")
			if exit != ipamtool.ExitFailed || !strings.Contains(out, path) || !strings.Contains(out, "the next pod that starts or ends rebuilds it") {
				t.Errorf("%s: exit %d: %s", path, exit, out)
			}
			if diff := cmp.Diff(before, n.content()); diff != "" {
				t.Error("the state was changed")
			}
		}
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
	for _, name := range []string{"limpet.db", "limpet.db.2", "limpet.journal", "limpet.journal.last"} {
		n.file(os.Remove(filepath.Join(n.dir, name)))
	}
	lost := n.content()
	if out, exit := n.on("list"); exit != ipamtool.ExitFailed || !strings.Contains(out, "rebuilds it") {
		t.Errorf("with a lost state: %d %s", exit, out)
	}
	if diff := cmp.Diff(lost, n.content()); diff != "" {
		t.Error("a lost state was rebuilt")
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
