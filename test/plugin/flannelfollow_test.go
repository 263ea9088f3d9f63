package plugin_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// ip runs a command of iproute2 in a namespace.
func (s space) ip(t *testing.T, args ...string) string {
	t.Helper()
	var out []byte
	err := s.in(func() (err error) {
		out, err = exec.Command("ip", args...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
	return string(out)
}

// checkSources has a namespace drop each IPv4 packet that comes from where the route to its source does not lead.
func (s space) checkSources(t *testing.T) {
	t.Helper()
	if err := s.in(func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0o600) }); err != nil {
		t.Fatal(err)
	}
}

// TestAGuestBelowFlannel gives a pod below bridge an address of another node, with a strict rp_filter on both nodes and in the pods. The bridge keeps its gateway, and with one route
// and one address for which the node answers, pod, node, its other pods and another node reach each other.
func TestAGuestBelowFlannel(t *testing.T) {
	node, other, dir := newNetNS(t, "node"), newNetNS(t, "other"), filepath.Join(t.TempDir(), "state")
	node.ip(t, "link", "add", "uplink", "type", "veth", "peer", "name", "uplink", "netns", other.name)
	for s, address := range map[space]string{node: "192.0.2.1/24", other: "192.0.2.2/24"} {
		s.ip(t, "link", "set", "uplink", "up")
		s.ip(t, "address", "add", address, "dev", "uplink")
	}
	node.ip(t, "route", "add", "default", "via", "192.0.2.2")
	other.ip(t, "route", "add", "10.1.0.0/16", "via", "192.0.2.1")
	home := netip.MustParseAddr("10.1.9.9")
	add := func(name string, annotations map[string]string, subnet string) (space, answer) {
		t.Helper()
		s, conf := newNetNS(t, name+fmt.Sprint(len(annotations))+subnet[5:6]), flannelConf(dir)
		conf["ipam"].(map[string]any)["addWait"] = "0s"
		conf["ipam"].(map[string]any)["ranges"] = json.RawMessage(`[[{"subnet":"` + subnet + `"}]]`)
		conf["runtimeConfig"] = map[string]any{"io.kubernetes.cri.pod-annotations": annotations}
		return s, node.run(t, call{plugin: lookPath(t, "bridge"), container: s.name, netns: s.path, args: pod(name, s.name), conf: conf}, "ADD")
	}
	plain, a := add("web-1", nil, "10.1.2.0/24")
	if a.exit != 0 {
		t.Fatalf("ADD: %s%s", a.stdout, a.stderr)
	}
	bridge := node.ip(t, "-brief", "-4", "address", "show", "cni0")

	follows, err := json.Marshal(persistence.Follows{Network: "cbr0", Node: "n2", Ranges: []netip.Prefix{netip.MustParsePrefix("10.1.2.0/24")}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, persistence.FollowsFile), follows, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	asks := map[string]string{reservation.ModeAnnotation: reservation.Follow.String(), reservation.HomeAnnotation: "n9"}
	if _, a := add("web-0", asks, "10.1.2.0/24"); a.Code != 11 || !strings.Contains(a.Msg, "the address is of node n9") {
		t.Errorf("before the loan: %s%s; want code 11", a.stdout, a.stderr)
	}
	writeLoanOn(t, "cbr0", dir, "", []netip.Addr{home}, loan.Step{Record: loan.Record{Guest: 8}})
	asks["more"] = ""
	guest, a := add("web-0", asks, "10.1.2.0/24")
	if a.exit != 0 || fmt.Sprint(a.addrs()) != "[10.1.9.9]" {
		t.Fatalf("ADD of the guest: %s%s", a.stdout, a.stderr)
	}
	if now := node.ip(t, "-brief", "-4", "address", "show", "cni0"); now != bridge || !strings.Contains(now, "10.1.2.1/24") {
		t.Errorf("the bridge has %s, had %s", now, bridge)
	}
	node.ip(t, "route", "add", "10.1.9.9/32", "dev", "cni0") // as the agent does
	node.ip(t, "neighbour", "add", "proxy", "10.1.9.1", "dev", "cni0")
	for _, s := range []space{node, other, plain, guest} {
		s.checkSources(t)
	}
	for _, from := range []space{node, plain, other} {
		ping(t, from, guest, home)
	}
	ping(t, guest, plain, netip.MustParseAddr("10.1.2.2"))
	ping(t, guest, other, netip.MustParseAddr("192.0.2.2"))
	ping(t, guest, node, netip.MustParseAddr("10.1.2.1"))

	if _, a := add("web-2", nil, "10.1.3.0/24"); a.Code != 11 || !strings.Contains(a.Msg, "10.1.3.0/24 is a new range") {
		t.Errorf("with a range whose loans the agent has not read: %s%s; want code 11", a.stdout, a.stderr)
	}
}
