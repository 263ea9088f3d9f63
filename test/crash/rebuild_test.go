package crash_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestKilledAtEachStepComesHome rebuilds a pod, and kills limpet-ipam before each of its file operations in turn: in the
// DEL of the old sandbox, in the ADD of the new one, and in the DEL that undoes this ADD. The test repeats the verbs as
// containerd and the kubelet do. The pod comes home each time, and no other pod loses an address.
func TestKilledAtEachStepComesHome(t *testing.T) {
	const most = 100 // file operations of a verb
	ends, starts, undone := 0, 0, 0
	for n := range most {
		killed := rebuild(t, steps{end: n, start: never, undo: never})
		if !killed.end {
			ends = n
			break
		}
	}
	for n := range most {
		if killed := rebuild(t, steps{end: never, start: n, undo: never}); !killed.start {
			starts = n
			break
		}
		for m := range most {
			if killed := rebuild(t, steps{end: never, start: n, undo: m}); !killed.undo {
				break
			}
			undone++
		}
	}
	t.Logf("killed DEL at %d steps, ADD at %d, and DELs that undo these at %d", ends, starts, undone)
	if ends < 4 || starts < 4 || undone < starts { // an ADD writes the journal and the marker, and syncs
		t.Errorf("killed DEL at %d steps, ADD at %d, and DELs that undo these at %d: too few", ends, starts, undone)
	}
}

// steps says after how many file operations each verb of a rebuild is killed.
type steps struct{ end, start, undo int }

// killed says which verbs of a rebuild were killed.
type killed struct{ end, start, undo bool }

// rebuild takes a pod from one sandbox to the next one.
func rebuild(t *testing.T, at steps) (k killed) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	verb := func(name string, l life, had []netip.Addr, done int) (stdout []byte, killed bool) {
		answer := filepath.Join(t.TempDir(), "answer")
		file, err := os.Create(answer)
		if err != nil {
			t.Fatal(err)
		}
		cmd := call(dir, name, l, had).Command(t.Context())
		cmd.Stdout = file
		_, exit, err := traceUntil(cmd, dir, instant{done: done})
		text, readErr := os.ReadFile(answer)
		if err := errors.Join(err, readErr, file.Close()); err != nil {
			t.Fatalf("%+v: %s of %s: %v", at, name, l.container(), err)
		}
		if exit > 0 {
			t.Fatalf("%+v: %s of %s: exit %d: %s", at, name, l.container(), exit, text)
		}
		return text, exit < 0
	}
	other, old, failed, next := life{1, 0}, life{0, 0}, life{0, 1}, life{0, 2}
	verb("ADD", other, nil, never)
	first, _ := verb("ADD", old, nil, never)
	home := addresses(first)

	if _, k.end = verb("DEL", old, home, at.end); k.end {
		verb("DEL", old, home, never) // the kubelet stops the sandbox again, and libcni still has the result
	}
	if _, k.start = verb("ADD", failed, nil, at.start); k.start {
		_, k.undo = verb("DEL", failed, nil, at.undo) // containerd drops the error of this DEL, and the sandbox with it
		if !k.undo {
			expect(t, fmt.Sprintf("%+v: undone", at), dir, []life{other}, map[reservation.Owner][]netip.Addr{old.owner(): home})
		}
		last, _ := verb("ADD", next, nil, never)
		if got := addresses(last); !slices.Equal(got, home) {
			t.Errorf("%+v: the pod has %v, had %v", at, got, home)
		}
		expect(t, fmt.Sprintf("%+v: rebuilt", at), dir, []life{other, next}, nil)
		return k
	}
	expect(t, fmt.Sprintf("%+v: rebuilt", at), dir, []life{other, failed}, nil)
	return k
}

// expect compares the state with the attachments and reservations that must be in it.
func expect(t *testing.T, when, dir string, attached []life, reserved map[reservation.Owner][]netip.Addr) {
	t.Helper()
	s, err := read(t.Context(), dir, nil)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	want := map[reservation.AttachmentID]bool{}
	for _, l := range attached {
		want[l.id()] = true
	}
	has := map[reservation.AttachmentID]bool{}
	for id := range s.attached {
		has[id] = true
	}
	if !maps.Equal(has, want) || !maps.EqualFunc(s.reserved, reserved, slices.Equal) {
		t.Errorf("%s: the state is\n%s", when, s)
	}
}
