package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestKilledWhileTheFileShrinks starts a pod on a node whose folds are mostly free, so that the ADD, which folds, makes a
// smaller one. limpet-ipam is killed before each of its file operations in turn, with -short before every third. The state
// is sound each time, and the next verbs find all pods and a small fold.
func TestKilledWhileTheFileShrinks(t *testing.T) {
	template := mostlyFree(t)
	const most = 200 // file operations of a verb
	inside := 0
	from, step := somewhere()
	for n := from; n < most; n += step {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
			t.Fatal(err)
		}
		_, exit, err := traceUntil(call(dir, "ADD", life{2, 0}, nil).Command(t.Context()), dir, instant{done: n})
		if err != nil || exit > 0 {
			t.Fatalf("killed after %d operations: exit %d, %v", n, exit, err)
		}
		if half, _ := filepath.Glob(filepath.Join(dir, "limpet.db*.new")); len(half) > 0 { // the pattern is right
			inside++
		}
		if _, err := read(t.Context(), dir, nil); err != nil {
			t.Fatalf("killed after %d operations: %v", n, err)
		}
		startsAgain(t, dir, fmt.Sprintf("killed after %d operations", n))
		if exit == 0 {
			t.Logf("killed at operations up to %d, %d times while the small fold was written", n, inside)
			if inside*step < 5 {
				t.Errorf("killed %d times while the small fold was written: too few", inside)
			}
			return
		}
	}
	t.Errorf("an ADD has more than %d file operations", most)
}

// startsAgain does what the kubelet does after an ADD that gave no answer.
func startsAgain(t *testing.T, dir, when string) {
	t.Helper()
	for _, c := range []struct {
		verb string
		life life
	}{{"DEL", life{2, 0}}, {"ADD", life{2, 1}}} {
		if out, err := call(dir, c.verb, c.life, nil).Command(t.Context()).Output(); err != nil {
			t.Fatalf("%s: %s: %v: %s", when, c.verb, err, out)
		}
	}
	expect(t, when, dir, []life{{0, 0}, {1, 0}, {2, 1}}, nil)
	if size := foldSize(dir); size > 2<<20 {
		t.Errorf("%s: the fold has %d bytes", when, size)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.new"))
	if err != nil || len(left) > 0 {
		t.Errorf("%s: %v is left, %v", when, left, err)
	}
}

// mostlyFree returns a directory with the state of two pods in folds with 6 MB of free pages, and a journal that is full.
func mostlyFree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	for pod := range 2 {
		if out, err := call(dir, "ADD", life{pod, 0}, nil).Command(t.Context()).Output(); err != nil {
			t.Fatalf("ADD: %v: %s", err, out)
		}
	}
	store := persistence.New(persistence.Options{Dir: dir})
	const networks = 100
	set := func(config []byte) {
		err := store.Update(t.Context(), func(tx *persistence.Tx) (err error) {
			for n := 0; n < networks && err == nil; n++ {
				err = tx.SetConfig(fmt.Sprint("ballast-", n), config)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	large := slices.Repeat([]byte(" "), 60_000)
	set(large)
	set(append(large, ' ')) // folds again: both folds have the ballast
	set([]byte("[]"))
	fillJournal(t, dir)
	set([]byte("[0]")) // folds: the journal stands on a fold with the free pages
	fillJournal(t, dir)
	if size := foldSize(dir); size < 6<<20 {
		t.Fatalf("the fold has %d bytes", size)
	}
	return dir
}
