package persistence_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestAWrongPageNumberEndsNoProcess has wrong numbers of pages in folds without checksums, because their journals are lost. bbolt
// would follow a circle of pages until the stack is full.
func TestAWrongPageNumberEndsNoProcess(t *testing.T) {
	made := filled(t, 1000)
	for range 2 {
		_, _, err := made.Compact(t.Context())
		must(t, err)
	}
	good := filesOf(t, made.Dir())
	delete(good, "limpet.journal")
	delete(good, "limpet.journal.last")
	branches := map[string][]int{}
	for _, fold := range []string{"limpet.db", "limpet.db.2"} {
		branches[fold] = pagesOf(t, good[fold], "branch")
	}
	if len(branches["limpet.db"]) < 3 {
		t.Errorf("%v are branch pages: the test tests little", branches)
	}
	for i := range branches["limpet.db"] {
		for _, to := range []uint64{0, 1, 1 << 20, 1 << 60} {
			bad := maps.Clone(good)
			for fold, ids := range branches {
				id := ids[i%len(ids)]
				if to == 1 {
					to = uint64(id)
				}
				bad[fold] = slices.Clone(good[fold])
				binary.LittleEndian.PutUint64(bad[fold][id*os.Getpagesize()+16+8:], to)
			}
			dir := t.TempDir()
			bad.write(t, dir)
			s := persistence.New(persistence.Options{Dir: dir, Rebuild: asRead})
			update(t, s, put(60_000))
			if n := len(records(t, s).Attachments); n != 1001 {
				t.Errorf("page %d of %v leads to %d: %d attachments are left", i, branches, to, n)
			}
			view(t, s, func(tx *persistence.Tx) error {
				if tx.Recoveries() != 1 {
					t.Errorf("page %d of %v leads to %d: rebuilt %d times", i, branches, to, tx.Recoveries())
				}
				return nil
			})
		}
	}
}

// TestAnAuditReadsNothingOfADamagedFold makes pages of a large fold lead to themselves. bbolt would follow them until the
// memory is full.
func TestAnAuditReadsNothingOfADamagedFold(t *testing.T) {
	s := filled(t, 5000)
	_, _, err := s.Compact(t.Context())
	must(t, err)
	path := persistence.ActiveFold(s.Dir())
	data, err := os.ReadFile(path)
	must(t, err)
	for _, id := range pagesOf(t, data, "branch") {
		binary.LittleEndian.PutUint64(data[id*os.Getpagesize()+16+8:], uint64(id))
	}
	must(t, os.WriteFile(path, data, 0o600))
	if _, err := s.Audit(t.Context(), nil); !errors.Is(err, persistence.ErrDamaged) {
		t.Errorf("audit: %v", err)
	}
}

// pagesOf returns the numbers of the pages of a type in a bbolt file.
func pagesOf(t *testing.T, file []byte, kind string) (ids []int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy")
	must(t, os.WriteFile(path, file, 0o600))
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	must(t, err)
	must(t, db.View(func(tx *bolt.Tx) error {
		for id := 0; ; id++ {
			p, err := tx.Page(id)
			if p == nil || err != nil {
				return err
			}
			if p.Type == kind {
				ids = append(ids, id)
			}
		}
	}))
	must(t, db.Close())
	return ids
}
