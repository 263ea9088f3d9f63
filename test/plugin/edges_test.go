package plugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// edgeBound is far longer than any verb takes that does not hang.
const edgeBound = time.Minute

// bounded runs a verb, and fails the test when the verb hangs.
func (c call) bounded(t *testing.T) answer {
	t.Helper()
	done := make(chan answer, 1)
	go func() { done <- c.run(t) }()
	select {
	case a := <-done:
		return a
	case <-time.After(edgeBound):
		t.Fatalf("%s of %s hangs", c.verb, c.container)
		return answer{}
	}
}

// TestAPipeInPlaceOfAFile puts a pipe in the place of each file of the state. No verb hangs, and the state is mended.
func TestAPipeInPlaceOfAFile(t *testing.T) {
	for _, file := range []string{"limpet.db", "limpet.db.2", "limpet.journal", "limpet.journal.last", "limpet.marker", "limpet.lock"} {
		for _, verb := range []string{"ADD", "CHECK", "STATUS", "DEL"} {
			t.Run(file+" "+verb, func(t *testing.T) {
				dir := t.TempDir()
				c := conf(dir, "1.1.0")
				first := kubelet(t, call{verb: "ADD", container: "first", args: pod("web-0", "u"), conf: c})
				path := filepath.Join(dir, file)
				if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				if err := unix.Mkfifo(path, 0o600); err != nil {
					t.Fatal(err)
				}
				v := call{verb: verb, container: "first", netns: "/none", args: pod("web-0", "u"), conf: c}
				if verb == "ADD" {
					v.container, v.args = "second", pod("web-1", "u")
				}
				a := v.bounded(t)
				if gone := file == "limpet.journal"; (a.exit != 0) != (gone && verb == "CHECK") { // nothing on this machine knows the container
					t.Errorf("%s: %s%s", verb, a.stdout, a.stderr)
				}
				last := call{verb: "ADD", container: "third", netns: "/none", args: pod("web-2", "u"), conf: c}.bounded(t)
				if last.exit != 0 || file != "limpet.journal" && slices.Equal(last.addrs(), first.addrs()) {
					t.Errorf("ADD afterwards: %s%s", last.stdout, last.stderr)
				}
				tool(t, 0, dir, "compact") // which writes the files that no verb reads
				if info, err := os.Lstat(path); file != "limpet.lock" && (err != nil || !info.Mode().IsRegular()) {
					t.Errorf("the pipe is still there: %v", err)
				}
			})
		}
	}
}

// TestNetworksNamedAsFilesOfTheState has networks with the names of the files in the directory of the state.
func TestNetworksNamedAsFilesOfTheState(t *testing.T) {
	dir := t.TempDir()
	kubelet(t, call{verb: "ADD", container: "first", args: pod("web-0", "u"), conf: conf(dir, "1.1.0")})
	for _, name := range []string{"limpet.db", "limpet.db.2", "limpet.journal", "limpet.lock", "limpet.marker"} {
		c := conf(dir, "1.1.0")
		c["name"] = name
		had := kubelet(t, call{verb: "ADD", container: "c1", args: pod("web-0", "u1"), conf: c}).addrs()
		kubelet(t, call{verb: "CHECK", container: "c1", args: pod("web-0", "u1"), conf: withPrevious(c, had)})
		kubelet(t, call{verb: "DEL", container: "c1", args: pod("web-0", "u1"), conf: c})
		delete(c, "prevResult")
		if again := kubelet(t, call{verb: "ADD", container: "c2", args: pod("web-0", "u2"), conf: c}).addrs(); !slices.Equal(again, had) {
			t.Errorf("%s: came back to %v, had %v", name, again, had)
		}
		ipam := maps.Clone(c["ipam"].(map[string]any))
		ipam["mirrorHostLocal"] = true
		c["ipam"] = ipam
		refused := call{verb: "ADD", container: "c3", netns: "/none", args: pod("web-3", "u3"), conf: c}.run(t)
		if refused.exit == 0 || refused.Code != 7 || !strings.HasPrefix(refused.Msg, "ipam.mirrorHostLocal: ") {
			t.Errorf("%s, mirrored: exit %d, %s", name, refused.exit, refused.stdout)
		}
		kubelet(t, call{verb: "DEL", container: "c3", args: pod("web-3", "u3"), conf: c})
		kubelet(t, call{verb: "DEL", container: "c2", args: pod("web-0", "u2"), conf: c})
	}
}

// TestAWaitingADDIsCancelledByItsOwnDELOnly ends a container whose names are those of a waiting ADD, joined differently.
func TestAWaitingADDIsCancelledByItsOwnDELOnly(t *testing.T) {
	dir := t.TempDir()
	kubelet(t, call{verb: "ADD", container: "first", args: pod("web-0", "u"), conf: conf(dir, "1.1.0")})
	other := conf(dir, "1.1.0")
	other["name"] = "net-a"
	release := lockState(t, dir)
	late := call{verb: "ADD", container: "a-b", netns: "/none", args: pod("web-1", "u"), conf: conf(dir, "1.1.0")}
	done := make(chan answer)
	go func() { done <- late.run(t) }()
	pid := waiter(t, dir)
	signal(t, pid, unix.SIGSTOP) // else either could be the first
	eventually(t, "the ADD is out of the queue", func() bool { return len(waiters(t, dir)) == 0 })
	release()
	kubelet(t, call{verb: "DEL", container: "b", args: pod("web-2", "u"), conf: other})
	signal(t, pid, unix.SIGCONT)
	if a := <-done; a.exit != 0 {
		t.Errorf("ADD: %s%s", a.stdout, a.stderr)
	}
}

// TestNamesThatAreTooLong passes names that cannot be stored. The codes are those of the specification, and no answer
// repeats a long name.
func TestNamesThatAreTooLong(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	named := conf(t.TempDir(), "1.1.0")
	named["name"] = long
	for name, tc := range map[string]struct {
		call call
		code uint
	}{
		"container ID":                       {call{container: long, args: pod("web-0", "u")}, 4},
		"container ID with other characters": {call{container: long + "!", args: pod("web-0", "u")}, 4},
		"pod":                                {call{container: "c", args: pod(long, "u")}, 4},
		"CNI_ARGS":                           {call{container: "c", args: "IgnoreUnknown=1;" + long}, 4},
		"interface that is not UTF-8":        {call{container: "c", ifName: "eth\xff", args: pod("web-0", "u")}, 4},
		"verb":                               {call{verb: long, container: "c"}, 4},
		"network":                            {call{container: "c", args: pod("web-0", "u"), conf: named}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.call.conf == nil {
				tc.call.conf = conf(t.TempDir(), "1.1.0")
			}
			if tc.call.verb == "" {
				tc.call.verb = "ADD"
			}
			tc.call.netns = "/none"
			if a := tc.call.run(t); a.Code != tc.code || len(a.stdout) > 5000 {
				t.Errorf("code %d in %d bytes, want %d: %.300s%s", a.Code, len(a.stdout), tc.code, a.stdout, a.stderr)
			}
		})
	}
}

// TestARangeOfTheGatewayAlone has a range whose only address is the gateway's.
func TestARangeOfTheGatewayAlone(t *testing.T) {
	c := conf(t.TempDir(), "1.1.0")
	c["ipam"].(map[string]any)["ranges"] = json.RawMessage(`[[{"subnet":"10.1.2.0/24","rangeStart":"10.1.2.1","rangeEnd":"10.1.2.1"}]]`)
	a := call{verb: "ADD", container: "c", netns: "/none", args: pod("web-0", "u"), conf: c}.run(t)
	if a.Code != 7 || !strings.Contains(a.Msg, "ipam.ranges[0]: the gateway is its only address") {
		t.Errorf("ADD: %s%s", a.stdout, a.stderr)
	}
}

// TestEachRangeSetHasItsCursor has more range sets than one byte can number.
func TestEachRangeSetHasItsCursor(t *testing.T) {
	const sets = 258
	dir := t.TempDir()
	c := conf(dir, "1.1.0")
	var ranges [][]map[string]string
	for n := range sets {
		ranges = append(ranges, []map[string]string{{"subnet": fmt.Sprintf("10.%d.%d.0/24", 2+n/256, n%256)}})
	}
	ipam := c["ipam"].(map[string]any)
	ipam["ranges"] = ranges
	delete(ipam, "routes")
	a := kubelet(t, call{verb: "ADD", container: "c", args: pod("web-0", "u"), conf: c})
	err := persistence.New(persistence.Options{Dir: dir}).View(t.Context(), func(tx *persistence.Tx) error {
		for n, addr := range a.addrs() {
			if got := tx.Cursor("net", n); got != addr {
				t.Errorf("cursor of set %d is %s, want %s", n, got, addr)
			}
		}
		return nil
	})
	if err != nil || len(a.addrs()) != sets || a.addrs()[0] != netip.MustParseAddr("10.2.0.2") {
		t.Errorf("%v, %v", a.addrs(), err)
	}
}

// TestWithoutBootID hides the boot ID of the kernel. ADD and STATUS fail with an answer in JSON, and pods can end.
func TestWithoutBootID(t *testing.T) {
	dir := t.TempDir()
	c := conf(dir, "1.1.0")
	had := kubelet(t, call{verb: "ADD", container: "first", args: pod("web-0", "u"), conf: c}).addrs()
	const path = "/proc/sys/kernel/random/boot_id"
	if err := unix.Mount("/dev/null", path, "", unix.MS_BIND, ""); err != nil { // in the mount namespace of these tests
		t.Fatal(err)
	}
	shown := func() {
		if err := unix.Unmount(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if shown != nil {
			shown()
		}
	}()
	for verb, code := range map[string]uint{"ADD": 5, "STATUS": 50, "VERSION": 0} {
		a := call{verb: verb, container: "second", netns: "/none", args: pod("web-1", "u"), conf: c}.run(t)
		if a.Code != code || !json.Valid([]byte(a.stdout)) || code != 0 && !strings.Contains(a.Msg, "boot ID") {
			t.Errorf("%s: exit %d, %s%s", verb, a.exit, a.stdout, a.stderr)
		}
	}
	kubelet(t, call{verb: "CHECK", container: "first", args: pod("web-0", "u"), conf: withPrevious(c, had)})
	kubelet(t, call{verb: "DEL", container: "first", args: pod("web-0", "u"), conf: c})
	shown()
	shown = nil
	delete(c, "prevResult")
	if again := kubelet(t, call{verb: "ADD", container: "third", args: pod("web-0", "u2"), conf: c}).addrs(); !slices.Equal(again, had) {
		t.Errorf("came back to %v, had %v", again, had)
	}
}
