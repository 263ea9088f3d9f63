package cni_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestGCKeepsWhatANamespaceHas runs GC with an empty list beside running pods, one of Limpet's and one of host-local's: no
// later pod gets an address that a namespace still has. An attachment whose interface is gone ends.
func TestGCKeepsWhatANamespaceHas(t *testing.T) {
	w := newTestNode(t)
	w.ipam = map[string]any{"ranges": json.RawMessage(`[[{"subnet":"10.1.0.0/29"}]]`)}
	runs, ended := lostSandbox("runs", false), lostSandbox("ended", false)
	w.start(runs)
	w.start(ended)
	was := w.mustAdd(runs)
	w.mustAdd(ended)
	delete(w.inside, ended.netns()) // its DEL was lost between the interface and limpet-ipam
	old := netip.MustParseAddr("10.1.0.6")
	if err := os.MkdirAll(filepath.Join(w.dir, network), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, network, old.String()), []byte("c-old\r\neth0"), 0o600); err != nil {
		t.Fatal(err)
	}
	mirrored := netip.MustParseAddr("10.1.0.5")
	if err := os.WriteFile(filepath.Join(w.dir, network, mirrored.String()), []byte("c-mirrored\r\neth0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.beside.Node.Inside = func() ([]netip.Addr, error) { return []netip.Addr{old, mirrored}, nil }
	if err := w.run(w.plugin.Funcs().GC, w.args(runs, map[string]any{"cni.dev/valid-attachments": []any{}})); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, network, mirrored.String())); err != nil {
		t.Errorf("the copy for host-local of an address that a namespace has: %v", err)
	}
	if left := w.read().Attached; len(left) != 1 || len(left[runs.attachment()].Addresses) == 0 {
		t.Errorf("attached %v, want the one whose namespace has the address", left)
	}
	for i := range 4 {
		s := lostSandbox("new", false)
		s.id, s.pod = s.id+string(rune('a'+i)), s.pod+string(rune('a'+i))
		w.start(s)
		if got, err := w.add(s); err == nil && (slices.Equal(got, was) || slices.Contains(got, old)) {
			t.Errorf("%s got %v, which a running pod has", s.pod, got)
		}
	}
}

// TestGCKeepsTheFilesOfNamespacesThatItCannotEnter runs GC while one namespace cannot be looked into: a file of host-local's,
// or a copy for it, may name an address of that namespace.
func TestGCKeepsTheFilesOfNamespacesThatItCannotEnter(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", false)
	w.start(s)
	w.mustAdd(s)
	w.hostLocal("10.1.0.6", "c-old\r\neth0")
	w.hostLocal("10.1.0.5", "c-mirrored\r\neth0\n")
	valid := []any{map[string]any{"containerID": s.id, "ifname": s.ifName}}
	for _, cause := range []error{unix.EMFILE, nil} {
		want := []string{"10.1.0.5", "10.1.0.6"}
		if cause == nil {
			want = []string{"lock"}
		}
		w.beside.Node.Inside = func() ([]netip.Addr, error) { return nil, cause }
		if err := w.run(w.plugin.Funcs().GC, w.args(s, map[string]any{"cni.dev/valid-attachments": valid})); (err != nil) != (cause != nil) {
			t.Errorf("GC: %v, want %v", err, cause)
		}
		if diff := cmp.Diff(want, w.hostLocalFiles()); diff != "" {
			t.Errorf("host-local's files, looked with %v (-want +got):\n%s", cause, diff)
		}
	}
}

// TestANamespaceThatCannotBeLookedAtLives refuses a successor while the path of its predecessor's namespace gives an error
// that does not prove its end.
func TestANamespaceThatCannotBeLookedAtLives(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", true)
	w.start(s)
	was := w.mustAdd(s)
	w.netns[s.netns()] = reservation.NetNS{Path: s.netns()} // as machine.StatNetNS says with another error than ENOENT
	w.start(next(s))
	if got, err := w.add(next(s)); codeOf(err) != 11 {
		t.Errorf("%v, %v; want code 11 while %v may be in use", got, err, was)
	}
}

// TestAClockThatNobodyHasSetEndsNoReservation starts a node again with a wall clock that is a day ahead, as one without a
// battery may be: the owner gets its address back, and no other pod does.
func TestAClockThatNobodyHasSetEndsNoReservation(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", true)
	w.start(s)
	was := w.mustAdd(s)
	if err := w.del(s); err != nil {
		t.Fatal(err)
	}
	w.reboot(time.Minute)
	w.step(24 * time.Hour)
	w.now.Unsure = true
	for i := range 4 { // more than the pool has left, so that lapsed reservations would go
		other := lostSandbox("other", false)
		other.id, other.pod = other.id+string(rune('a'+i)), other.pod+string(rune('a'+i))
		w.ipam = map[string]any{"onExhaustion": "refuse"}
		w.start(other)
		if got, err := w.add(other); err == nil && slices.Contains(got, was[0]) {
			t.Errorf("%s got %v", other.pod, got)
		}
	}
	w.start(next(s))
	if got := w.mustAdd(next(s)); !slices.Equal(got, was) {
		t.Errorf("had %v, got %v", was, got)
	}
}

// TestAWaitingADDLocksItsMarker looks at the marker of an ADD that waits: the agent removes markers that are not locked.
func TestAWaitingADDLocksItsMarker(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", true)
	w.start(s)
	w.mustAdd(s)
	w.start(next(s))
	looked := 0
	w.plugin.Await = func(wait cni.Wait) {
		for _, m := range wait.Markers {
			fd, err := unix.Open(m, unix.O_RDONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == nil {
				t.Errorf("%s is not locked", m)
			}
			_ = unix.Close(fd)
			looked++
		}
		w.pass(time.Hour)
	}
	if _, err := w.add(next(s)); codeOf(err) != 11 && err != nil || looked == 0 {
		t.Errorf("looked at %d markers, %v", looked, err)
	}
}
