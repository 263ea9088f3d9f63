package cni_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestPodsEndBesideAnObstacle ends pods while the state or its lock is something else than a file.
func TestPodsEndBesideAnObstacle(t *testing.T) {
	directory := func(path string) error { return os.Mkdir(path, 0o700) }
	dangling := func(path string) error { return os.Symlink(filepath.Join(filepath.Dir(path), "none", "none"), path) }
	loop := func(path string) error { return os.Symlink(path, path) }
	for _, file := range []string{"limpet.db", "limpet.db.2", "limpet.journal", "limpet.journal.last", "limpet.lock", "limpet.marker"} {
		for kind, obstacle := range map[string]func(string) error{"a directory": directory, "a dangling link": dangling, "a loop of links": loop} {
			t.Run(file+" is "+kind, func(t *testing.T) {
				w := newTestNode(t)
				s := lostSandbox("web", true)
				w.start(s)
				w.mustAdd(s)
				w.compact()
				path := filepath.Join(w.dir, file)
				if err := errors.Join(os.Remove(path), obstacle(path)); err != nil {
					t.Fatal(err)
				}
				if err := w.del(s); err != nil {
					t.Errorf("DEL: %v", err)
				}
			})
		}
	}
}

// TestAPodThatAsksForNothingDoesNotWait rebuilds a pod by force where the runtime passes no annotations. No program has told
// that one of the lives asks for a reservation, so the successor takes a free address at once (rule 10). It waits once
// the agent has told it of the predecessor.
func TestAPodThatAsksForNothingDoesNotWait(t *testing.T) {
	w := newTestNode(t)
	s := sandbox{id: "c1", pod: "web", uid: "uid-1", ifName: "eth0"}
	w.start(s)
	was := w.mustAdd(s)
	w.start(next(s))
	got, err := w.add(next(s))
	if err != nil || got[0] == was[0] {
		t.Errorf("%v, %v; want other addresses than %v at once", got, err, was)
	}
	err = persistence.New(persistence.Options{Dir: w.dir}).Update(t.Context(), func(tx *persistence.Tx) error {
		a, _, err := tx.Attachment(next(s).attachment())
		a.Retain, a.AnnotationsSeen = reservation.DefaultMaxRetain, true
		return errors.Join(err, tx.PutAttachment(a))
	})
	if err != nil {
		t.Fatal(err)
	}
	w.start(next(next(s)))
	if got, err := w.add(next(next(s))); codeOf(err) != 11 {
		t.Errorf("%v, %v; want code 11 while the predecessor, which asks, lives", got, err)
	}
}
