package persistence_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestFileKeepsItsSize runs the life of many pods through one file. It grows with how many
// there are at once, not with how many there were, and has its space before it is needed.
func TestFileKeepsItsSize(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(*persistence.Tx) error { return nil })
	const first = 1 << 20
	wantSpace(t, s, first, 0)
	for n := range 1000 {
		update(t, s, func(tx *persistence.Tx) error {
			if n >= 100 {
				if err := tx.DeleteAttachment(attachment(n - 100).ID); err != nil {
					return err
				}
			}
			return tx.PutAttachment(attachment(n))
		})
	}
	wantSpace(t, s, first, 0)

	for range 3 { // all pods of a large node come, and go
		for from := 10_000; from < 13_000; from += 100 {
			update(t, s, func(tx *persistence.Tx) error {
				for n := range 100 {
					if err := tx.PutAttachment(attachment(from + n)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		update(t, s, func(tx *persistence.Tx) error {
			for n := range 3000 {
				if err := tx.DeleteAttachment(attachment(10_000 + n).ID); err != nil {
					return err
				}
			}
			return nil
		})
	}
	update(t, s, func(*persistence.Tx) error { return nil })
	wantSpace(t, s, 8*first, first/2)
}

// wantSpace asserts the greatest size of the file, and how much of it may be without space.
func wantSpace(t *testing.T, s *persistence.Store, size, holes int64) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(s.Dir(), "limpet.db"), &st))
	if st.Size > size || st.Size-st.Blocks*512 > holes {
		t.Errorf("size %d, of which %d have space; want at most %d, and %d without", st.Size, st.Blocks*512, size, holes)
	}
	if _, err := os.Stat(filepath.Join(s.Dir(), "limpet.db.new")); err == nil {
		t.Error("something is left over")
	}
}
