package plugin_test

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The tests in this file delete a pod by force: the successor's ADD comes while the network namespace of its predecessor
// exists, and waits.

// waitingConf lets an ADD wait longer than a test does.
func waitingConf(dir string) map[string]any {
	c := interfaceConf(dir, "ptp")
	c["ipam"].(map[string]any)["addWait"] = "60s"
	return c
}

// successor is an ADD that waits.
type successor struct {
	space
	call
	answer chan answer
	kill   context.CancelFunc
}

// startSuccessor starts the ADD of a pod's next life, and returns when the ADD waits.
func startSuccessor(t *testing.T, node space, dir, role, uid string, waiting int) *successor {
	t.Helper()
	s := &successor{space: newNetNS(t, role), answer: make(chan answer, 1)}
	ctx, kill := context.WithCancel(t.Context())
	s.kill = kill
	t.Cleanup(kill)
	s.call = call{plugin: lookPath(t, "ptp"), container: s.name, netns: s.path, args: pod("web-0", uid), conf: waitingConf(dir), interrupted: ctx}
	go func() {
		c := s.call
		c.verb = "ADD"
		var a answer
		_ = node.in(func() error { a = c.run(t); return nil })
		s.answer <- a
	}()
	eventually(t, "an ADD waits for its predecessor", func() bool { return len(pendingADDs(t, dir)) == waiting })
	return s
}

// pendingADDs lists the markers of waiting ADDs.
func pendingADDs(t *testing.T, dir string) []string {
	t.Helper()
	own, err := filepath.Glob(filepath.Join(dir, ".pending", "[^.]*"))
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// predecessor starts a pod below ptp.
func predecessor(t *testing.T, node space, dir string) (space, call, []netip.Addr) {
	t.Helper()
	s := newNetNS(t, "first")
	c := call{plugin: lookPath(t, "ptp"), container: s.name, netns: s.path, args: pod("web-0", "u1"), conf: waitingConf(dir)}
	a := node.run(t, c, "ADD")
	if a.exit != 0 || len(a.IPs) != 2 {
		t.Fatalf("ADD: %s%s", a.stdout, a.stderr)
	}
	c.conf = withPrevious(waitingConf(dir), a.addrs())
	return s, c, a.addrs()
}

// TestForceDeletedPodComesBackInOneADD ends the predecessor while the successor waits: by both its DEL and the end of its
// namespace, as a runtime does, and by one of them.
func TestForceDeletedPodComesBackInOneADD(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, node, first space, c call){
		"both": func(t *testing.T, node, first space, c call) {
			if a := node.run(t, c, "DEL"); a.exit != 0 {
				t.Errorf("DEL: %s%s", a.stdout, a.stderr)
			}
			_ = unix.Unmount(first.path, unix.MNT_DETACH)
			_ = unix.Unlink(first.path)
		},
		"DEL": func(t *testing.T, node, _ space, c call) {
			if a := node.run(t, c, "DEL"); a.exit != 0 {
				t.Errorf("DEL: %s%s", a.stdout, a.stderr)
			}
		},
		"namespace": func(t *testing.T, _, first space, _ call) { first.remove(t) },
	} {
		t.Run(name, func(t *testing.T) {
			node, dir := newNetNS(t, "node"), t.TempDir()
			first, c, had := predecessor(t, node, dir)
			next := startSuccessor(t, node, dir, "next", "u2", 1)
			end(t, node, first, c)
			a := <-next.answer
			if a.exit != 0 || fmt.Sprint(a.addrs()) != fmt.Sprint(had) {
				t.Fatalf("had %v, the successor has %v: %s%s", had, a.addrs(), a.stdout, a.stderr)
			}
			for _, addr := range had {
				ping(t, node, next.space, addr)
			}
			if left := pendingADDs(t, dir); len(left) > 0 {
				t.Errorf("markers are left: %v", left)
			}
		})
	}
}

// TestTwoSuccessorsWaitForOnePredecessor lets two ADDs wait. One of them gets the addresses, and the other one goes on waiting.
func TestTwoSuccessorsWaitForOnePredecessor(t *testing.T) {
	node, dir := newNetNS(t, "node"), t.TempDir()
	first, _, had := predecessor(t, node, dir)
	a := startSuccessor(t, node, dir, "a", "u2", 1)
	b := startSuccessor(t, node, dir, "b", "u3", 2)
	first.remove(t)
	winner, loser := a, b
	var won answer
	select {
	case won = <-a.answer:
	case won = <-b.answer:
		winner, loser = b, a
	}
	if won.exit != 0 || fmt.Sprint(won.addrs()) != fmt.Sprint(had) {
		t.Fatalf("had %v, %s has %v: %s%s", had, winner.name, won.addrs(), won.stdout, won.stderr)
	}
	eventually(t, "the other one waits", func() bool { return len(pendingADDs(t, dir)) == 1 })
	winner.conf = withPrevious(waitingConf(dir), had)
	if a := node.run(t, winner.call, "DEL"); a.exit != 0 {
		t.Fatalf("DEL: %s%s", a.stdout, a.stderr)
	}
	if lost := <-loser.answer; lost.exit != 0 || fmt.Sprint(lost.addrs()) != fmt.Sprint(had) {
		t.Errorf("had %v, %s has %v: %s%s", had, loser.name, lost.addrs(), lost.stdout, lost.stderr)
	}
	read(t, dir) // nothing is held twice
}

// TestKilledWaitLeavesNothing kills an ADD that waits: limpet-ipam alone, and the interface plugin as a runtime does.
func TestKilledWaitLeavesNothing(t *testing.T) {
	for name, kill := range map[string]func(*successor, int){
		"alone":    func(_ *successor, pid int) { _ = unix.Kill(pid, unix.SIGKILL) },
		"together": func(s *successor, _ int) { s.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			node, dir := newNetNS(t, "node"), t.TempDir()
			first, _, had := predecessor(t, node, dir)
			killed := startSuccessor(t, node, dir, "killed", "u2", 1)
			pid := processWith(t, "CNI_CONTAINERID="+killed.name, binary)
			kill(killed, pid)
			<-killed.answer
			eventually(t, "limpet-ipam ends", func() bool { return hasEnded(pid) })
			first.remove(t)
			next := newNetNS(t, "next")
			c := killed.call
			c.container, c.netns, c.args, c.interrupted = next.name, next.path, pod("web-0", "u3"), nil
			if a := node.run(t, c, "ADD"); a.exit != 0 || fmt.Sprint(a.addrs()) != fmt.Sprint(had) {
				t.Errorf("had %v, the next one has %v: %s%s", had, a.addrs(), a.stdout, a.stderr)
			}
			if attached, reserved := read(t, dir); len(attached) != 1 || len(reserved) != 0 {
				t.Errorf("%v attached, %v reserved", attached, reserved)
			}
		})
	}
}
