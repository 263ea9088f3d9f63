package persistence_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// put returns a transaction that stores an attachment.
func put(i int) func(*persistence.Tx) error {
	return func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(i)) }
}

// TestEarlierFileIsNoticed puts files in the place of a state file that are sound, and not its newest.
func TestEarlierFileIsNoticed(t *testing.T) {
	renamed := func(t *testing.T, path string, data []byte) {
		must(t, os.WriteFile(path+".restored", data, 0o600))
		must(t, os.Rename(path+".restored", path))
	}
	overwritten := func(t *testing.T, path string, data []byte) { must(t, os.WriteFile(path, data, 0o600)) }
	for name, tc := range map[string]struct {
		after func(t *testing.T, s *persistence.Store, path string, earlier []byte)
		want  error
	}{
		"an earlier file under the same name": {want: persistence.ErrOutdated, after: func(t *testing.T, s *persistence.Store, path string, earlier []byte) {
			update(t, s, put(2))
			renamed(t, path, earlier)
		}},
		"an earlier file in the same inode": {want: persistence.ErrOutdated, after: func(t *testing.T, s *persistence.Store, path string, earlier []byte) {
			update(t, s, put(2))
			overwritten(t, path, earlier)
		}},
		"an earlier file after a compaction": {want: persistence.ErrOutdated, after: func(t *testing.T, s *persistence.Store, path string, earlier []byte) {
			update(t, s, put(2))
			_, _, err := s.Compact(t.Context())
			must(t, err)
			overwritten(t, path, earlier)
		}},
		"a file of a state that was lost with its marker": {want: persistence.ErrOutdated, after: func(t *testing.T, s *persistence.Store, path string, _ []byte) {
			for i := range 50 { // more commits than the new state will have
				update(t, s, put(2+i))
			}
			earlier, err := os.ReadFile(path)
			must(t, err)
			must(t, os.RemoveAll(filepath.Dir(path)))
			update(t, s, put(2))
			overwritten(t, path, earlier)
		}},
		"a file of a version without generations": {want: persistence.ErrOutdated, after: func(t *testing.T, s *persistence.Store, path string, earlier []byte) {
			withoutGeneration(t, path)
		}},
		"the newest file": {after: func(t *testing.T, s *persistence.Store, path string, earlier []byte) { renamed(t, path, earlier) }},
		"a file that was compacted": {after: func(t *testing.T, s *persistence.Store, path string, earlier []byte) {
			update(t, s, func(tx *persistence.Tx) error {
				for i := range 2000 {
					if err := tx.PutAttachment(attachment(i + 2)); err != nil {
						return err
					}
				}
				return nil
			})
			update(t, s, func(tx *persistence.Tx) error {
				for i := range 2000 {
					if err := tx.DeleteAttachment(attachment(i + 2).ID); err != nil {
						return err
					}
				}
				return nil
			})
			before, after, err := s.Compact(t.Context())
			must(t, err)
			if after >= before {
				t.Fatal("nothing was compacted")
			}
		}},
		"a file whose marker was not written": {after: func(t *testing.T, s *persistence.Store, path string, earlier []byte) {
			marker, err := os.ReadFile(filepath.Join(filepath.Dir(path), "limpet.marker"))
			must(t, err)
			update(t, s, put(2))
			must(t, os.WriteFile(filepath.Join(filepath.Dir(path), "limpet.marker"), marker, 0o600))
		}},
		"a marker of a version without generations": {after: func(t *testing.T, s *persistence.Store, path string, earlier []byte) {
			must(t, os.WriteFile(filepath.Join(filepath.Dir(path), "limpet.marker"), []byte("Limpet keeps.\n"), 0o600))
			withoutGeneration(t, path)
		}},
		"a marker that is torn": {after: func(t *testing.T, s *persistence.Store, path string, earlier []byte) {
			marker := filepath.Join(filepath.Dir(path), "limpet.marker")
			data, err := os.ReadFile(marker)
			must(t, err)
			i := strings.Index(string(data), "generation ") + len("generation ")
			data[i] = '9'
			must(t, os.WriteFile(marker, data, 0o600))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state", "limpet.db")
			s := persistence.New(persistence.Options{Dir: filepath.Dir(path)})
			update(t, s, put(1))
			earlier, err := os.ReadFile(path)
			must(t, err)
			tc.after(t, s, path, earlier)
			nothing := func(*persistence.Tx) error { return persistence.ErrUnchanged }
			if err := s.Update(t.Context(), nothing); !errors.Is(err, tc.want) || persistence.LostOrDamaged(err) != (tc.want != nil) {
				t.Errorf("Update: %v, want %v", err, tc.want)
			}
			if err := s.View(t.Context(), func(*persistence.Tx) error { return nil }); !errors.Is(err, tc.want) {
				t.Errorf("View: %v, want %v", err, tc.want)
			}
			r, err := s.Audit(t.Context(), nil)
			must(t, err)
			if found := slices.ContainsFunc(r.Faults, func(f persistence.Fault) bool { return f.Kind == persistence.FaultFile }); found != (tc.want != nil) {
				t.Errorf("Audit: %v", r.Faults)
			}
			if tc.want != nil {
				rebuilt(t, path)
				return
			}
			update(t, s, put(9999)) // from now on the marker says the generation again
			must(t, os.WriteFile(path, earlier, 0o600))
			if err := s.Update(t.Context(), nothing); !errors.Is(err, persistence.ErrOutdated) {
				t.Errorf("an earlier file later: %v", err)
			}
		})
	}
}

// rebuilt rebuilds the state from the earlier file, once.
func rebuilt(t *testing.T, path string) {
	t.Helper()
	n := 0
	s := persistence.New(persistence.Options{Dir: filepath.Dir(path), Rebuild: func(left persistence.Salvaged) (reservation.Records, error) {
		n++
		if left.Complete || len(left.Read.Attachments) == 0 {
			t.Errorf("read %d attachments, complete: %t", len(left.Read.Attachments), left.Complete)
		}
		return left.Read, nil
	}})
	for range 3 {
		update(t, s, func(tx *persistence.Tx) error {
			_, err := tx.NextSeq()
			return err
		})
	}
	view(t, s, func(tx *persistence.Tx) error {
		if _, found, err := tx.Attachment(attachment(1).ID); err != nil || !found || tx.Recoveries() != 1 || n != 1 {
			t.Errorf("found %t, %v; %d recoveries, rebuilt %d times", found, err, tx.Recoveries(), n)
		}
		return nil
	})
	if kept, _ := filepath.Glob(path + ".damaged-*"); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
}

// withoutGeneration removes the generation from a state file.
func withoutGeneration(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("generation")) }))
	must(t, db.Close())
}
