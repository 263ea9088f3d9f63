package persistence_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestFileKeepsItsSize attaches and ends many pods in one file. The file grows with the pods at a time, not with all
// pods ever, and its disk space is allocated before it is needed.
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

	for range 3 { // all pods of a large node start and end
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

// wantSpace fails the test when the file is larger than size, or has more than so many bytes without disk space.
func wantSpace(t *testing.T, s *persistence.Store, size, holes int64) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(persistence.ActiveFold(s.Dir()), &st))
	if st.Size > size || st.Size-st.Blocks*512 > holes {
		t.Errorf("size %d, of which %d have space; want at most %d, and %d without", st.Size, st.Blocks*512, size, holes)
	}
	if _, err := os.Stat(filepath.Join(s.Dir(), "limpet.db.new")); err == nil {
		t.Error("something is left over")
	}
}
