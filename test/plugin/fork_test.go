package plugin_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// The tests in this file are the failures that were measured on the
// fork of host-local that reserves addresses. Pods made before the switch are in
// adopt_test.go.

// rebuild ends a pod's sandbox as a runtime does, and starts the next one.
func rebuild(t *testing.T, dir, name, from, to string, had []netip.Addr) answer {
	t.Helper()
	kubelet(t, call{verb: "DEL", container: from, args: pod(name, from), conf: withPrevious(conf(dir, "1.1.0"), had)})
	return kubelet(t, call{verb: "ADD", container: to, args: pod(name, to), conf: conf(dir, "1.1.0")})
}

// kubelet runs a verb that must succeed.
func kubelet(t *testing.T, c call) answer {
	t.Helper()
	if c.netns == "" {
		c.netns = "/run/netns/none-" + c.container
	}
	a := c.run(t)
	if a.exit != 0 {
		t.Fatalf("%s of %s: %s%s", c.verb, c.container, a.stdout, a.stderr)
	}
	return a
}

// TestForceDeletedPodSharesNoAddress: host-local's fork gave the successor the address while the old
// sandbox still had it, for up to a second.
func TestForceDeletedPodSharesNoAddress(t *testing.T) {
	dir, old := t.TempDir(), newNetNS(t, "old")
	first := kubelet(t, call{verb: "ADD", container: "old", netns: old.path, args: pod("web-0", "u1"), conf: conf(dir, "1.1.0")})
	for range 3 {
		early := call{verb: "ADD", container: "new", netns: "/none", args: pod("web-0", "u2"), conf: conf(dir, "1.1.0")}.run(t)
		if early.Code != 11 {
			t.Fatalf("ADD beside the old sandbox: %s%s; want code 11", early.stdout, early.stderr)
		}
	}
	other := kubelet(t, call{verb: "ADD", container: "other", args: pod("web-1", "u"), conf: conf(dir, "1.1.0")})
	if other.addrs()[0] == first.addrs()[0] {
		t.Errorf("another pod got %s", other.addrs())
	}
	if again := rebuild(t, dir, "web-0", "old", "new", first.addrs()); fmt.Sprint(again.addrs()) != fmt.Sprint(first.addrs()) {
		t.Errorf("came back to %s, had %s", again.addrs(), first.addrs())
	}
}

// TestLateDELStartsNoDeadline: host-local's fork took the kubelet's second DEL for the end of the
// pod that runs by then, and gave its address away a cycle later.
func TestLateDELStartsNoDeadline(t *testing.T) {
	dir := t.TempDir()
	had := kubelet(t, call{verb: "ADD", container: "life-0", args: pod("web-0", "life-0"), conf: conf(dir, "1.1.0")}).addrs()
	for i := range 5 {
		from, to := fmt.Sprintf("life-%d", i), fmt.Sprintf("life-%d", i+1)
		again := rebuild(t, dir, "web-0", from, to, had)
		if diff := cmp.Diff(fmt.Sprint(had), fmt.Sprint(again.addrs())); diff != "" {
			t.Fatalf("rebuild %d (-had +has):\n%s", i, diff)
		}
		for range 2 { // with the result of the ADD, and without
			kubelet(t, call{verb: "DEL", container: from, args: pod("web-0", from), conf: withPrevious(conf(dir, "1.1.0"), had)})
			kubelet(t, call{verb: "DEL", container: from, args: pod("web-0", from), conf: conf(dir, "1.1.0")})
		}
		attached, reserved := read(t, dir)
		if a, running := attached[to]; !running || len(reserved) != 0 || fmt.Sprint(a.Addresses) != fmt.Sprint(had) {
			t.Fatalf("a late DEL left %v attached and %v reserved", attached, reserved)
		}
	}
}

// TestExpiredAddressIsNotLeaked: host-local's fork lost an address forever whose pod was rebuilt
// once and whose reservation then lapsed.
func TestExpiredAddressIsNotLeaked(t *testing.T) {
	dir := t.TempDir()
	one := conf(dir, "1.1.0") // a pool of one address
	one["ipam"].(map[string]any)["ranges"] = json.RawMessage(`[[{"subnet":"10.1.2.0/24","rangeStart":"10.1.2.7","rangeEnd":"10.1.2.7"}]]`)
	one["ipam"].(map[string]any)["onExhaustion"] = "refuse"
	delete(one["ipam"].(map[string]any), "routes")
	pods := func(verb, name, id string) answer {
		return call{verb: verb, container: id, netns: "/none", args: pod(name, id), conf: one}.run(t)
	}
	had := pods("ADD", "web-0", "a").addrs()
	withPrevious(one, had)
	for _, step := range [][2]string{{"DEL", "a"}, {"ADD", "b"}, {"DEL", "b"}} { // rebuilt once, and gone
		if a := pods(step[0], "web-0", step[1]); a.exit != 0 {
			t.Fatalf("%s %s: %s%s", step[0], step[1], a.stdout, a.stderr)
		}
	}
	if early := pods("ADD", "web-1", "c"); early.Code != 100 || !strings.Contains(early.Msg, "1 of its 1 addresses are reserved") {
		t.Fatalf("ADD before the deadline: %s%s; want code 100", early.stdout, early.stderr)
	}
	age(t, dir)
	after := pods("ADD", "web-1", "d")
	if after.exit != 0 || fmt.Sprint(after.addrs()) != fmt.Sprint(had) {
		t.Errorf("ADD after the deadline: %s%s; want %s", after.stdout, after.stderr, had)
	}
	if attached, reserved := read(t, dir); len(attached) != 1 || len(reserved) != 0 {
		t.Errorf("left %v attached, %v reserved", attached, reserved)
	}
}

// age makes every reservation an hour older.
func age(t *testing.T, dir string) {
	t.Helper()
	err := persistence.New(persistence.Options{Dir: dir}).Update(t.Context(), func(tx *persistence.Tx) error {
		all, err := tx.Reservations("net")
		for _, r := range all {
			r.Deadline.From.Wall, r.Deadline.From.Up, r.Deadline.From.BootID = r.Deadline.From.Wall.Add(-time.Hour), 0, "an earlier boot"
			if err := tx.PutReservation(r); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDualStackComesBackWhole: host-local's fork lost the IPv4 address at the first rebuild and
// leaked both.
func TestDualStackComesBackWhole(t *testing.T) {
	dir := t.TempDir()
	had := kubelet(t, call{verb: "ADD", container: "life-0", args: pod("web-0", "u"), conf: conf(dir, "1.1.0")}).addrs()
	for i := range 3 {
		again := rebuild(t, dir, "web-0", fmt.Sprintf("life-%d", i), fmt.Sprintf("life-%d", i+1), had)
		if len(had) != 2 || fmt.Sprint(again.addrs()) != fmt.Sprint(had) {
			t.Fatalf("rebuild %d: came back to %s, had %s", i, again.addrs(), had)
		}
	}
	plain := withPrevious(conf(dir, "1.1.0"), had)
	delete(plain, "runtimeConfig")
	age(t, dir)
	kubelet(t, call{verb: "DEL", container: "life-3", args: pod("web-0", "u"), conf: plain})
	age(t, dir)
	if attached, _ := read(t, dir); len(attached) != 0 { // and the index agrees: nothing is held that no record names
		t.Errorf("left %v attached", attached)
	}
}

// atOnce runs calls at the same time.
func atOnce(t *testing.T, calls ...call) []answer {
	answers := make([]answer, len(calls))
	var wg sync.WaitGroup
	for i, c := range calls {
		wg.Go(func() { answers[i] = c.run(t) })
	}
	wg.Wait()
	return answers
}

// TestTwoADDsOfOneNameAtOnce: of 200 first ADDs in pairs host-local's fork gave 169 pairs the
// same address, with a reservation 140.
func TestTwoADDsOfOneNameAtOnce(t *testing.T) {
	for name, reserve := range map[string]bool{"with nothing reserved": false, "with a reservation": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, a, b := t.TempDir(), newNetNS(t, "a"), newNetNS(t, "b")
			for i := range times(50) {
				name := fmt.Sprintf("web-%d", i)
				if reserve {
					had := kubelet(t, call{verb: "ADD", container: name, args: pod(name, "u"), conf: conf(dir, "1.1.0")}).addrs()
					kubelet(t, call{verb: "DEL", container: name, args: pod(name, "u"), conf: withPrevious(conf(dir, "1.1.0"), had)})
				}
				calls := []call{
					{verb: "ADD", container: name + "-a", netns: a.path, args: pod(name, "u1"), conf: conf(dir, "1.1.0")},
					{verb: "ADD", container: name + "-b", netns: b.path, args: pod(name, "u2"), conf: conf(dir, "1.1.0")},
				}
				both := atOnce(t, calls...)
				if codes := both[0].Code + both[1].Code; codes != 11 { // one has it, the other is told to wait
					t.Fatalf("%s: %s and %s", name, both[0].stdout, both[1].stdout)
				}
				for _, c := range calls {
					c.verb, c.conf = "DEL", withPrevious(conf(dir, "1.1.0"), append(both[0].addrs(), both[1].addrs()...))
					kubelet(t, c)
				}
			}
			read(t, dir) // nothing is held twice
		})
	}
}

// TestADDsWhileReservationsExpire: ten of 400 ADDs of host-local's fork panicked.
func TestADDsWhileReservationsExpire(t *testing.T) {
	dir := t.TempDir()
	const together = 8
	for round := range times(25) {
		var calls []call
		for i := range together {
			name := fmt.Sprintf("web-%d-%d", round, i)
			calls = append(calls, call{verb: "ADD", container: name, netns: "/none", args: pod(name, "u"), conf: conf(dir, "1.1.0")})
		}
		for i, a := range atOnce(t, calls...) {
			if a.exit != 0 {
				t.Fatalf("ADD: %s%s", a.stdout, a.stderr)
			}
			calls[i].verb, calls[i].conf = "DEL", withPrevious(conf(dir, "1.1.0"), a.addrs())
		}
		for _, a := range atOnce(t, calls...) {
			if a.exit != 0 {
				t.Fatalf("DEL: %s%s", a.stdout, a.stderr)
			}
		}
		if round%2 == 0 {
			age(t, dir)
		}
	}
	read(t, dir)
}

// TestDELAndADDAndDELAtOnce: 76 of 300 records of host-local's fork were unreadable for good.
func TestDELAndADDAndDELAtOnce(t *testing.T) {
	dir := t.TempDir()
	for i := range times(60) {
		name := fmt.Sprintf("web-%d", i%3)
		old, successor := fmt.Sprintf("c-%d", i), fmt.Sprintf("s-%d", i)
		first := kubelet(t, call{verb: "ADD", container: old, args: pod(name, old), conf: conf(dir, "1.1.0")})
		ended := call{verb: "DEL", container: old, netns: "", args: pod(name, old), conf: withPrevious(conf(dir, "1.1.0"), first.addrs())}
		added := call{verb: "ADD", container: successor, netns: "/none", args: pod(name, successor), conf: conf(dir, "1.1.0")}
		answers := atOnce(t, ended, added, ended)
		for _, a := range answers {
			if a.exit != 0 {
				t.Fatalf("%s%s", a.stdout, a.stderr)
			}
		}
		if fmt.Sprint(answers[1].addrs()) != fmt.Sprint(first.addrs()) { // whichever was first, it came home
			t.Errorf("%s came back to %s, had %s", name, answers[1].addrs(), first.addrs())
		}
		attached, reserved := read(t, dir)
		if _, running := attached[successor]; !running {
			t.Fatalf("left %v attached, %v reserved", attached, reserved)
		}
		kubelet(t, call{verb: "DEL", container: successor, args: pod(name, successor), conf: withPrevious(conf(dir, "1.1.0"), first.addrs())})
	}
	if _, err := os.Stat(dir + "/limpet.db"); err != nil {
		t.Error(err)
	}
}
