package crash_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestKilledWhileTheFileShrinks starts a pod on a node whose state file is mostly free, so that the ADD makes the file
// smaller. limpet-ipam is killed before each of its file operations in turn. The state is sound each time, and the next
// verbs find all pods and a small file.
func TestKilledWhileTheFileShrinks(t *testing.T) {
	template := mostlyFree(t)
	const most = 200 // file operations of a verb
	inside := 0
	for n := range most {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
			t.Fatal(err)
		}
		_, exit, err := traceUntil(call(dir, "ADD", life{2, 0}, nil).Command(t.Context()), dir, instant{done: n})
		if err != nil || exit > 0 {
			t.Fatalf("killed after %d operations: exit %d, %v", n, exit, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "limpet.db.new")); err == nil {
			inside++
		}
		if _, err := read(t.Context(), dir, nil); err != nil {
			t.Fatalf("killed after %d operations: %v", n, err)
		}
		startsAgain(t, dir, fmt.Sprintf("killed after %d operations", n))
		if exit == 0 {
			t.Logf("killed at %d operations, %d of them while the small file was written", n, inside)
			if inside < 5 {
				t.Errorf("killed %d times while the small file was written: too few", inside)
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
	if size := fileSize(dir); size > 2<<20 {
		t.Errorf("%s: the file has %d bytes", when, size)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.new"))
	if err != nil || len(left) > 0 {
		t.Errorf("%s: %v is left, %v", when, left, err)
	}
}

// mostlyFree returns a directory with the state of two pods, in a file with 6 MB of free pages.
func mostlyFree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	for pod := range 2 {
		if out, err := call(dir, "ADD", life{pod, 0}, nil).Command(t.Context()).Output(); err != nil {
			t.Fatalf("ADD: %v: %s", err, out)
		}
	}
	db, err := bolt.Open(filepath.Join(dir, "limpet.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	name, value := []byte("ballast"), slices.Repeat([]byte{1}, 1000)
	fill := db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket(name)
		for i := uint64(0); i < 6000 && err == nil; i++ {
			err = b.Put(binary.BigEndian.AppendUint64(nil, i), value)
		}
		return err
	})
	empty := db.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket(name) })
	if err := errors.Join(fill, empty, db.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}
