package plugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// resultsDir is libcni's cache, which this test has for itself.
const resultsDir = "/var/lib/cni/results"

// TestCheckComparesWithWhatRuns takes a running pod out of the state, which check finds and
// repairs.
func TestCheckComparesWithWhatRuns(t *testing.T) {
	node, sandbox := newNetNS(t, "node"), newNetNS(t, "pod")
	dir := t.TempDir()
	c := call{plugin: lookPath(t, "ptp"), container: sandbox.name, netns: sandbox.path, args: pod("web-0", "u1"), conf: interfaceConf(dir, "ptp")}
	addrs := node.start(t, c)
	check(t, dir, 0)
	store := persistence.New(persistence.Options{Dir: dir})
	err := store.Update(t.Context(), func(tx *persistence.Tx) error {
		return tx.DeleteAttachment(reservation.AttachmentID{Network: "net", ContainerID: sandbox.name, IfName: "eth0"})
	})
	if err != nil {
		t.Fatal(err)
	}
	out := check(t, dir, 1)
	for _, a := range addrs {
		if !strings.Contains(out, fmt.Sprintf("net %s ", a)) || !strings.Contains(out, "free in the state") {
			t.Errorf("%s is not missed:\n%s", a, out)
		}
	}
	check(t, dir, 0, "--repair")
	check(t, dir, 0)
	if attached, _ := read(t, dir); fmt.Sprint(attached[sandbox.name].Addresses) != fmt.Sprint(addrs) || attached[sandbox.name].Owner.Pod != "web-0" {
		t.Errorf("repaired to %+v, want %v", attached, addrs)
	}
	node.end(t, c, addrs)
	if _, reserved := read(t, dir); len(reserved) != 1 {
		t.Errorf("%d reserved after the end", len(reserved))
	}
	check(t, dir, 0)
}

// TestCheckIsNotMisledByPodsThatComeAndGo runs check again and again while pods come and go.
func TestCheckIsNotMisledByPodsThatComeAndGo(t *testing.T) {
	node := newNetNS(t, "node")
	dir := t.TempDir()
	var calls []call
	for i := range 3 {
		sandbox := newNetNS(t, fmt.Sprintf("pod%d", i))
		calls = append(calls, call{
			plugin: lookPath(t, "ptp"), container: sandbox.name, netns: sandbox.path, args: pod(fmt.Sprintf("web-%d", i), "u"), conf: interfaceConf(dir, "ptp"),
		})
	}
	node.end(t, calls[0], node.start(t, calls[0])) // there is a state
	var enough atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !enough.Load() && !t.Failed() {
			for _, c := range calls {
				node.end(t, c, node.start(t, c))
			}
		}
	}()
	defer func() { enough.Store(true); <-done }() // the calls end with the test's context
	for range 10 {
		check(t, dir, 0)
	}
}

// check runs limpet-ipam check and wants it to end so.
func check(t *testing.T, dir string, want int, flags ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"check", "--data-dir", dir}, flags...)...)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("check %v ends with %d, want %d:\n%s", flags, got, want, out)
	}
	return string(out)
}

// start runs ADD, and leaves what libcni leaves when its chain has succeeded.
func (s space) start(t *testing.T, c call) []netip.Addr {
	t.Helper()
	added := s.run(t, c, "ADD")
	if added.exit != 0 {
		t.Errorf("ADD of %s: %s%s", c.container, added.stdout, added.stderr)
		return nil
	}
	conf, err := json.Marshal(c.conf)
	if err != nil {
		t.Error(err)
	}
	var args [][2]string
	for arg := range strings.SplitSeq(c.args, ";") {
		key, value, _ := strings.Cut(arg, "=")
		args = append(args, [2]string{key, value})
	}
	data, err := json.Marshal(map[string]any{
		"kind": "cniCacheV1", "containerId": c.container, "ifName": "eth0", "networkName": "net", "netns": c.netns, "config": conf, "cniArgs": args,
		"capabilityArgs": map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{reservation.RetainAnnotation: "10"}},
		"result":         json.RawMessage(added.stdout),
	})
	if err := errors.Join(err, os.MkdirAll(resultsDir, 0o700), os.WriteFile(c.cached(), data, 0o600)); err != nil {
		t.Error(err)
	}
	return added.addrs()
}

// end runs DEL as libcni does, which forgets the container last.
func (s space) end(t *testing.T, c call, addrs []netip.Addr) {
	t.Helper()
	c.conf = withPrevious(interfaceConf(c.dataDir(), "ptp"), addrs)
	if a := s.run(t, c, "DEL"); a.exit != 0 {
		t.Errorf("DEL of %s: %s%s", c.container, a.stdout, a.stderr)
	}
	if err := os.Remove(c.cached()); err != nil {
		t.Error(err)
	}
}

func (c call) cached() string { return filepath.Join(resultsDir, "net-"+c.container+"-eth0") }

func (c call) dataDir() string {
	return c.conf.(map[string]any)["ipam"].(map[string]any)["dataDir"].(string)
}
