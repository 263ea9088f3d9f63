package plugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// member is a node on a segment that it shares with others.
type member struct {
	space
	plugin, dir string
	number      int
}

// ranges are the parts of two subnets that a node has.
func (m member) ranges() (sets [][]map[string]string, known []netip.Prefix) {
	for _, r := range [][4]string{
		{"10.9.0.0/16", fmt.Sprintf("10.9.%d.2", m.number), fmt.Sprintf("10.9.%d.99", m.number), "10.9.0.1"},
		{"fd00:9::/64", fmt.Sprintf("fd00:9::%d:2", m.number), fmt.Sprintf("fd00:9::%d:99", m.number), "fd00:9::1"},
	} {
		sets = append(sets, []map[string]string{{"subnet": r[0], "rangeStart": r[1], "rangeEnd": r[2], "gateway": r[3]}})
		known = append(known, ipam.Range{Start: netip.MustParseAddr(r[1]), End: netip.MustParseAddr(r[2])}.Prefixes()...)
	}
	return sets, known
}

// tell is what the agent writes once it has read the loans of its ranges.
func (m member) tell(t *testing.T) {
	t.Helper()
	_, known := m.ranges()
	follows, err := json.Marshal(persistence.Follows{Network: "lan", Node: fmt.Sprint("n", m.number), Ranges: known})
	if err = errors.Join(err, os.MkdirAll(m.dir, 0o700)); err == nil {
		err = os.WriteFile(filepath.Join(m.dir, persistence.FollowsFile), follows, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// verb runs a verb for a pod that follows, whose home is n1.
func (m member) verb(t *testing.T, verb string, sandbox space) answer {
	t.Helper()
	sets, _ := m.ranges()
	c := map[string]any{
		"cniVersion": "1.0.0", "name": "lan", "type": m.plugin, "bridge": "br-limpet", "master": "uplink",
		"ipam": map[string]any{
			"type": "limpet-ipam", "dataDir": m.dir, "logFile": "none", "addWait": "0s", "sharedNetwork": true, "ranges": sets,
			"routes": json.RawMessage(`[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]`),
		},
		"runtimeConfig": map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{
			reservation.ModeAnnotation: reservation.Follow.String(), reservation.HomeAnnotation: "n1",
		}},
	}
	return m.run(t, call{plugin: lookPath(t, m.plugin), container: sandbox.name, netns: sandbox.path, args: pod("web-0", sandbox.name), conf: c}, verb)
}

// lends writes a step of a loan into the state of the node.
func (m member) lends(t *testing.T, addrs []netip.Addr, step loan.Step) {
	t.Helper()
	writeLoanOn(t, "lan", m.dir, "", addrs, step)
}

// segment makes two nodes and another machine on one segment. The nodes have the interface on which it is for a plugin.
func segment(t *testing.T, plugin string) (home, borrower member, other space) {
	t.Helper()
	wire := newNetNS(t, "wire")
	wire.ip(t, "link", "add", "segment", "type", "bridge")
	wire.ip(t, "link", "set", "segment", "up")
	join := func(name string) space {
		s := newNetNS(t, name)
		wire.ip(t, "link", "add", name, "type", "veth", "peer", "name", "uplink", "netns", s.name)
		wire.ip(t, "link", "set", name, "master", "segment", "up")
		s.ip(t, "link", "set", "uplink", "up")
		return s
	}
	nodes := [2]member{}
	for i := range nodes {
		nodes[i] = member{join(fmt.Sprint("n", i+1)), plugin, filepath.Join(t.TempDir(), "state"), i + 1}
		if plugin == "bridge" {
			nodes[i].ip(t, "link", "add", "br-limpet", "type", "bridge")
			nodes[i].ip(t, "link", "set", "uplink", "master", "br-limpet")
			nodes[i].ip(t, "link", "set", "br-limpet", "up")
		}
	}
	other = join("other")
	other.ip(t, "address", "add", "10.9.0.1/16", "dev", "uplink")
	other.ip(t, "address", "add", "fd00:9::1/64", "dev", "uplink", "nodad")
	return nodes[0], nodes[1], other
}

// answers returns the time until an address refuses a connection, and so answers.
func (s space) answers(t *testing.T, addr netip.Addr) time.Duration {
	t.Helper()
	start := time.Now()
	for time.Since(start) < time.Minute {
		var err error
		if s.in(func() error {
			_, err = net.DialTimeout("tcp", netip.AddrPortFrom(addr, 9).String(), 50*time.Millisecond)
			return nil
		}) == nil && errors.Is(err, syscall.ECONNREFUSED) {
			return time.Since(start)
		}
	}
	t.Fatalf("%s does not answer", addr)
	return 0
}

// TestAGuestOnASharedSegment moves a pod between two nodes on one L2 segment and home again, while a third machine knows where it was.
func TestAGuestOnASharedSegment(t *testing.T) {
	for _, plugin := range []string{"bridge", "macvlan"} {
		t.Run(plugin, func(t *testing.T) {
			home, borrower, other := segment(t, plugin)
			first, second, third, last := newNetNS(t, "p1"), newNetNS(t, "p2"), newNetNS(t, "p3"), newNetNS(t, "p4")
			if a := home.verb(t, "ADD", first); a.Code != 11 || !strings.Contains(a.Msg, "is a new range") {
				t.Fatalf("before the agent has read the loans: %s%s; want code 11", a.stdout, a.stderr)
			}
			home.verb(t, "DEL", first)
			home.tell(t)
			borrower.tell(t)
			had := home.verb(t, "ADD", first)
			if fmt.Sprint(had.addrs()) != "[10.9.1.2 fd00:9::1:2]" {
				t.Fatalf("ADD at home: %s%s", had.stdout, had.stderr)
			}
			for _, a := range had.addrs() {
				other.answers(t, a)
			}
			if a := home.verb(t, "DEL", first); a.exit != 0 {
				t.Fatalf("DEL at home: %s%s", a.stdout, a.stderr)
			}
			home.lends(t, had.addrs(), loan.Step{Record: loan.Record{Lent: 7}})
			borrower.lends(t, had.addrs(), loan.Step{Record: loan.Record{Guest: 8}})

			began := time.Now()
			guest := borrower.verb(t, "ADD", second)
			took := time.Since(began)
			if guest.exit != 0 || fmt.Sprint(guest.IPs) != fmt.Sprint(had.IPs) {
				t.Fatalf("ADD of the guest: %s%s; want what it had, %v", guest.stdout, guest.stderr, had.IPs)
			}
			if plugin == "bridge" {
				borrower.announce(t, guest.addrs())
			}
			t.Logf("%s: ADD of the guest took %s; IPv4 answers %s later, IPv6 %s", plugin, took, other.answers(t, had.addrs()[0]), other.answers(t, had.addrs()[1]))

			home.lends(t, had.addrs(), loan.Step{Reserve: true}) // the borrower was taken for dead
			if a := home.verb(t, "ADD", third); a.Code != 11 || !strings.Contains(a.Msg, "find that machine") {
				t.Errorf("while the guest has the address: %s%s; want code 11", a.stdout, a.stderr)
			}
			home.verb(t, "DEL", third)
			if a := borrower.verb(t, "DEL", second); a.exit != 0 {
				t.Fatalf("DEL of the guest: %s%s", a.stdout, a.stderr)
			}
			back := home.verb(t, "ADD", last)
			if back.exit != 0 || fmt.Sprint(back.IPs) != fmt.Sprint(had.IPs) {
				t.Fatalf("ADD back home: %s%s", back.stdout, back.stderr)
			}
			if plugin == "bridge" {
				home.announce(t, back.addrs())
			}
			for _, a := range back.addrs() {
				other.answers(t, a)
			}
		})
	}
}

// announce is what the agent does for a pod below bridge.
func (m member) announce(t *testing.T, addrs []netip.Addr) {
	t.Helper()
	if err := m.in(func() error {
		macs, err := machine.Ask("br-limpet", addrs)
		if len(macs) != len(addrs) {
			err = errors.Join(err, fmt.Errorf("got %v", macs))
		}
		for a, mac := range macs {
			err = errors.Join(err, machine.Announce("br-limpet", a, mac))
		}
		return err
	}); err != nil {
		t.Errorf("announce %v: %v", addrs, err)
	}
}
