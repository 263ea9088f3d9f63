package plugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestBelowInterfacePlugins rebuilds a pod under real interface plugins: packets
// reach the address, the same address comes back, and while the old network
// namespace is there the successor has to wait.
func TestBelowInterfacePlugins(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("network namespaces need root")
	}
	for _, plugin := range []string{"ptp", "bridge", "macvlan", "ipvlan"} {
		t.Run(plugin, func(t *testing.T) {
			node := newNetNS(t, "node")
			dir := t.TempDir()
			c := call{plugin: lookPath(t, plugin), conf: interfaceConf(dir, plugin)}
			caller := node
			if plugin == "macvlan" || plugin == "ipvlan" {
				caller = node.neighbour(t, plugin, c)
			}

			first := newNetNS(t, "pod-1")
			c.container, c.netns, c.args = first.name, first.path, pod("web-0", "u1")
			added := node.run(t, c, "ADD")
			if added.exit != 0 || len(added.IPs) != 2 {
				t.Fatalf("ADD: %s%s", added.stdout, added.stderr)
			}
			for _, a := range added.addrs() {
				ping(t, caller, first, a)
			}

			refused, second := newNetNS(t, "pod-2"), newNetNS(t, "pod-3")
			successor := c
			successor.container, successor.netns, successor.args = refused.name, refused.path, pod("web-0", "u2")
			early := node.run(t, successor, "ADD")
			if early.Code != 11 || !strings.Contains(early.Msg, first.name) {
				t.Errorf("ADD beside the living predecessor: %s; want code 11 that names %s", early.stdout, first.name)
			}
			if a := node.run(t, successor, "DEL"); a.exit != 0 { // as a runtime does after a failed ADD
				t.Errorf("DEL of the refused one: %s%s", a.stdout, a.stderr)
			}

			c.conf = withPrevious(interfaceConf(dir, plugin), added.addrs())
			if a := node.run(t, c, "DEL"); a.exit != 0 {
				t.Fatalf("DEL: %s%s", a.stdout, a.stderr)
			}
			if _, reserved := read(t, dir); len(reserved) != 1 {
				t.Errorf("reserved: %v, want the pod's addresses", reserved)
			}
			successor.container, successor.netns = second.name, second.path
			again := node.run(t, successor, "ADD")
			if fmt.Sprint(again.addrs()) != fmt.Sprint(added.addrs()) {
				t.Fatalf("came back to %v, had %v: %s%s", again.addrs(), added.addrs(), again.stdout, again.stderr)
			}
			for _, a := range again.addrs() {
				ping(t, caller, second, a)
			}
			if a := node.run(t, c, "DEL"); a.exit != 0 { // late and repeated
				t.Errorf("late DEL: %s%s", a.stdout, a.stderr)
			}
			for _, a := range again.addrs() {
				ping(t, caller, second, a)
			}
			attached, reserved := read(t, dir)
			if _, still := attached[second.name]; !still || len(reserved) != 0 {
				t.Errorf("a late DEL left %v attached, %v reserved", attached, reserved)
			}
		})
	}
}

// TestAFailingChainGivesBack fails an interface plugin after the address was handed
// out: it calls DEL itself, and neither an address nor a reservation stays.
func TestAFailingChainGivesBack(t *testing.T) {
	node, sandbox := newNetNS(t, "node"), newNetNS(t, "pod")
	dir := t.TempDir()
	conf := interfaceConf(dir, "ptp")
	// A result with a route through an address out of reach makes ptp fail late.
	conf["ipam"].(map[string]any)["routes"] = json.RawMessage(`[{"dst":"192.0.2.0/24","gw":"198.51.100.1"}]`)
	c := call{plugin: lookPath(t, "ptp"), container: sandbox.name, netns: sandbox.path, args: pod("web-0", "u1"), conf: conf}
	if a := node.run(t, c, "ADD"); a.exit == 0 {
		t.Fatalf("ADD succeeded: %s", a.stdout)
	}
	if attached, reserved := read(t, dir); len(attached)+len(reserved) != 0 {
		t.Errorf("left %v attached, %v reserved", attached, reserved)
	}
}

func interfaceConf(dir, plugin string) map[string]any {
	c := conf(dir, "1.1.0")
	c["type"] = plugin
	c["ipam"].(map[string]any)["routes"] = json.RawMessage(`[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]`)
	switch plugin {
	case "bridge":
		c["bridge"], c["isGateway"] = "br-limpet", true
	case "macvlan", "ipvlan":
		c["master"] = master
		delete(c["ipam"].(map[string]any), "routes") // no machine has the gateway's address
	}
	c["runtimeConfig"] = map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{reservation.RetainAnnotation: "10"}}
	return c
}

var errNoSuchDevice = errors.New("the kernel does not know this type of interface")

// master is the interface that macvlan and ipvlan share.
const master = "limpet-master"

// neighbour makes the master, and a pod on it: the node itself cannot talk to its own
// macvlan and ipvlan interfaces. The other end of the master is a cable to nowhere.
func (s space) neighbour(t *testing.T, kind string, c call) space {
	t.Helper()
	err := s.in(func() error {
		for _, args := range [][]string{
			{"link", "add", master, "type", "veth", "peer", "name", "limpet-nowhere"},
			{"link", "set", master, "up"},
			{"link", "set", "limpet-nowhere", "up"},
			{"link", "add", "link", master, "name", "limpet-try", "type", kind},
			{"link", "delete", "limpet-try"},
		} {
			if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
				if strings.Contains(string(out), "Unknown device type") {
					return errNoSuchDevice
				}
				return fmt.Errorf("ip %v: %w: %s", args, err, out)
			}
		}
		return nil
	})
	if errors.Is(err, errNoSuchDevice) {
		t.Skipf("NOT TESTED: this kernel has no %s", kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	pod0 := newNetNS(t, "neighbour")
	c.container, c.netns, c.args = pod0.name, pod0.path, pod("neighbour", "u0")
	if a := s.run(t, c, "ADD"); a.exit != 0 {
		t.Fatalf("ADD: %s%s", a.stdout, a.stderr)
	}
	return pod0
}

func lookPath(t *testing.T, plugin string) string {
	t.Helper()
	for _, dir := range filepath.SplitList(cniPath) {
		if path := filepath.Join(dir, plugin); fileExists(path) {
			return path
		}
	}
	t.Fatalf("no plugin %s in %s", plugin, cniPath)
	return ""
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// space is a network namespace that the test made.
type space struct {
	name, path string
	handle     netns.NsHandle
}

func newNetNS(t *testing.T, role string) space {
	t.Helper()
	name := fmt.Sprintf("limpet-test-%d-%s-%s", os.Getpid(), strings.ToLower(filepath.Base(t.Name())), role)
	s := space{name: name, path: "/run/netns/" + name}
	done := make(chan error)
	go func() { // the thread stays in the new namespace, and ends with this goroutine
		runtime.LockOSThread()
		var err error
		s.handle, err = netns.NewNamed(name)
		if err == nil {
			err = exec.Command("ip", "link", "set", "lo", "up").Run()
		}
		done <- err
	}()
	err := <-done
	t.Cleanup(func() {
		if err := netns.DeleteNamed(name); err != nil && fileExists(s.path) {
			t.Errorf("delete network namespace: %v", err)
		}
		_ = s.handle.Close()
	})
	if err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	return s
}

// remove removes the path and the interface of a namespace before the end of the test. The test
// has a handle, which keeps the namespace itself.
func (s space) remove(t *testing.T) {
	t.Helper()
	err := s.in(func() error { return exec.Command("ip", "link", "delete", "eth0").Run() })
	if err := errors.Join(err, netns.DeleteNamed(s.name)); err != nil {
		t.Fatal(err)
	}
}

// in runs fn on a thread that is inside the namespace.
func (s space) in(fn func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := netns.Set(s.handle)
		if err == nil {
			err = fn()
		}
		done <- err
	}()
	return <-done
}

// run executes a plugin inside the namespace.
func (s space) run(t *testing.T, c call, verb string) (a answer) {
	t.Helper()
	c.verb = verb
	if err := s.in(func() error { a = c.run(t); return nil }); err != nil {
		t.Fatal(err)
	}
	return a
}

// ping sends a word from one namespace to a TCP server in another and reads it back.
func ping(t *testing.T, from, to space, addr netip.Addr) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	var listener net.Listener
	for listener == nil { // an IPv6 address is tentative for a moment
		err := to.in(func() (err error) {
			listener, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
			return err
		})
		if err != nil && time.Now().After(deadline) {
			t.Fatalf("listen on %s: %v", addr, err)
		}
	}
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	var conn net.Conn
	for conn == nil {
		err := from.in(func() (err error) {
			conn, err = net.DialTimeout("tcp", listener.Addr().String(), time.Second)
			return err
		})
		if err != nil && time.Now().After(deadline) {
			t.Fatalf("dial %s: %v", addr, err)
		}
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(deadline)
	if _, err := conn.Write([]byte("limpet")); err != nil {
		t.Fatalf("write to %s: %v", addr, err)
	}
	word := make([]byte, 6)
	if _, err := io.ReadFull(conn, word); err != nil || string(word) != "limpet" {
		t.Fatalf("read %q from %s: %v", word, addr, err)
	}
}
