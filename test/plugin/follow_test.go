package plugin_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// elsewhere are the addresses of another node.
var elsewhere = []netip.Addr{netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("fd00:9::9")}

// follower is the configuration of a pod that follows.
func follower(dir, home string, wait time.Duration) map[string]any {
	c := interfaceConf(dir, "ptp")
	c["name"] = reservation.FollowNetwork
	c["ipam"].(map[string]any)["addWait"] = wait.String()
	annotations := map[string]string{reservation.ModeAnnotation: reservation.Follow.String()}
	if home != "" {
		annotations[reservation.HomeAnnotation] = home
	}
	c["runtimeConfig"] = map[string]any{"io.kubernetes.cri.pod-annotations": annotations}
	return c
}

// writeLoan is what the agent does: it writes a record in a boot, and ends the waits for it.
func writeLoan(t *testing.T, dir, boot string, addrs []netip.Addr, step loan.Step) {
	t.Helper()
	writeLoanOn(t, reservation.FollowNetwork, dir, boot, addrs, step)
}

func writeLoanOn(t *testing.T, network, dir, boot string, addrs []netip.Addr, step loan.Step) {
	t.Helper()
	clock, err := machine.ReadClocks("/proc/sys/kernel/random/boot_id", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	now := clock()
	if boot != "" {
		now.BootID = boot
	}
	owner := reservation.Owner{Network: network, Namespace: "ns", Pod: "web-0", IfName: "eth0"}
	step.Verb, step.Record.Confirmed = loan.Write, true
	err = persistence.New(persistence.Options{Dir: dir}).Update(t.Context(), func(tx *persistence.Tx) error {
		return lifecycle.WriteLoan(tx, owner, addrs, step, now)
	})
	if err != nil {
		t.Fatal(err)
	}
	id := owner.LoanID()
	_ = os.Remove(filepath.Join(dir, persistence.PendingDir, "."+id.Network+":"+id.ContainerID+":"+id.IfName)) // where an ADD waits
}

// TestAnAddressThatFollows plays the lives of a pod below ptp, in processes: at home, lent, as a guest, and after a reboot.
// A strict rp_filter lets its packets pass.
func TestAnAddressThatFollows(t *testing.T) {
	node, dir, lives := newNetNS(t, "node"), t.TempDir(), 0
	node.checkSources(t)
	add := func(conf map[string]any) (space, call, answer) {
		lives++
		s := newNetNS(t, fmt.Sprintf("life%d", lives))
		s.checkSources(t)
		c := call{plugin: lookPath(t, "ptp"), container: s.name, netns: s.path, args: pod("web-0", s.name), conf: conf}
		return s, c, node.run(t, c, "ADD")
	}
	end := func(c call, addrs []netip.Addr) {
		t.Helper()
		c.conf = withPrevious(follower(dir, "", 0), addrs)
		if a := node.run(t, c, "DEL"); a.exit != 0 {
			t.Fatalf("DEL: %s%s", a.stdout, a.stderr)
		}
	}
	refused := func(what string, a answer) {
		t.Helper()
		if a.exit == 0 || a.Code != 11 || !strings.Contains(a.Msg, what) {
			t.Fatalf("ADD: exit %d, %s%s; want code 11 and %q", a.exit, a.stdout, a.stderr, what)
		}
	}
	gets := func(want []netip.Addr, s space, a answer) {
		t.Helper()
		if a.exit != 0 || fmt.Sprint(a.addrs()) != fmt.Sprint(want) {
			t.Fatalf("ADD: %s%s; want %v", a.stdout, a.stderr, want)
		}
		for _, addr := range want {
			ping(t, node, s, addr)
		}
	}

	s, c, a := add(follower(dir, "", 0))
	home := a.addrs()
	gets(home, s, a)
	end(c, home)
	if _, reserved := readNetwork(t, dir, reservation.FollowNetwork); reserved["web-0"].Deadline.For != reservation.Forever {
		t.Errorf("reserved %+v", reserved)
	}

	writeLoan(t, dir, "", home, loan.Step{Record: loan.Record{Lent: 7}, Unattached: true})
	_, _, a = add(follower(dir, "n2", 0))
	refused(fmt.Sprintf("%s is lent to another node", strings.Trim(strings.ReplaceAll(fmt.Sprint(home), " ", ","), "[]")), a)
	back := make(chan struct{})
	go func() {
		defer close(back)
		eventually(t, "an ADD waits for the agent", func() bool {
			waits, _ := filepath.Glob(filepath.Join(dir, ".pending", ".limpet:loan.ns.web-0:eth0"))
			return len(waits) == 1
		})
		writeLoan(t, dir, "", home, loan.Step{Reserve: true})
	}()
	s, c, a = add(follower(dir, "n1", time.Minute))
	<-back
	gets(home, s, a)
	end(c, home)

	writeLoan(t, dir, "", elsewhere, loan.Step{Record: loan.Record{Guest: 8}})
	s, c, a = add(follower(dir, "n2", 0))
	gets(elsewhere, s, a)
	for _, want := range []string{`"10.9.9.9/24"`, `"10.9.9.1"`, `"fd00:9::9/64"`, `"fd00:9::1"`} {
		if !strings.Contains(a.stdout, want) {
			t.Errorf("the result lacks %s: %s", want, a.stdout)
		}
	}
	end(c, elsewhere)
	s, _, a = add(follower(dir, "n2", 0))
	gets(elsewhere, s, a)
	s.remove(t)
	gc := follower(dir, "", 0)
	gc["cni.dev/valid-attachments"] = []any{}
	if a := (call{verb: "GC", conf: gc}).run(t); a.exit != 0 {
		t.Errorf("GC: %s%s", a.stdout, a.stderr)
	}
	attached, reserved := readNetwork(t, dir, reservation.FollowNetwork)
	if r := reserved["web-0"]; len(attached) != 0 || r.Guest != 8 || fmt.Sprint(r.Addresses) != fmt.Sprint(elsewhere) {
		t.Errorf("after GC: attached %v, reserved %+v", attached, reserved)
	}

	writeLoan(t, dir, "the boot before", elsewhere, loan.Step{Record: loan.Record{Guest: 8}})
	_, _, a = add(follower(dir, "n2", 0))
	refused("may be lent since this node started", a)
	writeLoan(t, dir, "", elsewhere, loan.Step{Record: loan.Record{Guest: 8}})
	s, c, a = add(follower(dir, "n2", 0))
	gets(elsewhere, s, a)
	end(c, elsewhere)
	writeLoan(t, dir, "", elsewhere, loan.Step{Unattached: true})
	_, _, a = add(follower(dir, "n2", 0))
	refused("the address is of node n2", a)
}
