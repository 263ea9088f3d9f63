package persistence_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// put returns a transaction that stores an attachment.
func put(i int) func(*persistence.Tx) error {
	return func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(i)) }
}

// TestEarlierFilesAreNoticed puts files in the place of a state's files that are sound, and not its newest.
func TestEarlierFilesAreNoticed(t *testing.T) {
	only := func(f files, names ...string) files {
		some := files{}
		for _, n := range names {
			some[n] = f[n]
		}
		return some
	}
	const fold, journal, marker = "limpet.db", "limpet.journal", "limpet.marker"
	for name, tc := range map[string]struct {
		after func(t *testing.T, s *persistence.Store, earlier files)
		want  error
	}{
		"an earlier journal": {want: persistence.ErrOutdated, after: func(t *testing.T, s *persistence.Store, earlier files) {
			update(t, s, put(2))
			only(earlier, journal).write(t, s.Dir())
		}},
		"an earlier journal and fold, after a fold": {want: persistence.ErrOutdated, after: func(t *testing.T, s *persistence.Store, earlier files) {
			update(t, s, put(2))
			_, _, err := s.Compact(t.Context())
			must(t, err)
			only(earlier, fold, journal).write(t, s.Dir())
		}},
		"an earlier fold": {want: persistence.ErrDamaged, after: func(t *testing.T, s *persistence.Store, earlier files) {
			for range 2 {
				update(t, s, put(2))
				_, _, err := s.Compact(t.Context())
				must(t, err)
			}
			only(earlier, fold).write(t, s.Dir())
		}},
		"a state that was lost with its marker": {want: persistence.ErrOutdated, after: func(t *testing.T, s *persistence.Store, _ files) {
			for i := range 50 { // more commits than the new state will have
				update(t, s, put(2+i))
			}
			earlier := filesOf(t, s.Dir())
			must(t, os.RemoveAll(s.Dir()))
			update(t, s, put(2))
			only(earlier, fold, fold+".2", journal, journal+".last").write(t, s.Dir())
		}},
		"the newest files": {after: func(t *testing.T, s *persistence.Store, earlier files) { earlier.write(t, s.Dir()) }},
		"an earlier marker": {after: func(t *testing.T, s *persistence.Store, earlier files) {
			update(t, s, put(2))
			only(earlier, marker).write(t, s.Dir())
		}},
		"a marker of a version without generations": {after: func(t *testing.T, s *persistence.Store, earlier files) {
			files{marker: []byte("Limpet keeps.\n")}.write(t, s.Dir())
		}},
		"a marker that is torn": {after: func(t *testing.T, s *persistence.Store, earlier files) {
			torn := bytes.Replace(earlier[marker], []byte("generation 0"), []byte("generation 9"), 1)
			files{marker: torn}.write(t, s.Dir())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: filepath.Join(t.TempDir(), "state")})
			update(t, s, put(1))
			tc.after(t, s, filesOf(t, s.Dir()))
			nothing := func(*persistence.Tx) error { return persistence.ErrUnchanged }
			if err := s.Update(t.Context(), nothing); !errors.Is(err, tc.want) || persistence.LostOrDamaged(err) != (tc.want != nil) {
				t.Errorf("Update: %v, want %v", err, tc.want)
			}
			if err := s.View(t.Context(), func(*persistence.Tx) error { return nil }); !errors.Is(err, tc.want) {
				t.Errorf("View: %v, want %v", err, tc.want)
			}
			if _, err := s.Audit(t.Context(), nil); !errors.Is(err, tc.want) {
				t.Errorf("Audit: %v, want %v", err, tc.want)
			}
			if tc.want != nil {
				rebuilt(t, s.Dir(), errors.Is(tc.want, persistence.ErrDamaged))
			}
		})
	}
}

// TestARestartLosesWhatWasNotSynced puts an earlier journal back, as a loss of power does that comes before the disk has
// the last commits. That is no damage, unless one of them was synced.
func TestARestartLosesWhatWasNotSynced(t *testing.T) {
	plain := func(tx *persistence.Tx) error { return tx.SetCursor("net", 0, v4(2)) }
	for name, tc := range map[string]struct {
		commit func(*persistence.Tx) error
		uptime time.Duration
		fold   bool
		want   error
	}{
		"a restart": {commit: plain, uptime: time.Minute},
		"a restart, and a fold before the first commit": {commit: plain, uptime: time.Minute, fold: true},
		"no restart": {commit: plain, uptime: 3 * time.Hour, want: persistence.ErrOutdated},
		"a restart, and a synced commit": {
			commit: func(tx *persistence.Tx) error { return tx.PutReservation(reserve(attachment(2))) }, uptime: time.Minute, want: persistence.ErrOutdated,
		},
	} {
		t.Run(name, func(t *testing.T) {
			up := 2 * time.Hour
			s := persistence.New(persistence.Options{Dir: t.TempDir(), Uptime: func() time.Duration { return up }})
			update(t, s, put(1))
			earlier := filesOf(t, s.Dir())
			update(t, s, tc.commit)
			files{"limpet.journal": earlier["limpet.journal"]}.write(t, s.Dir())
			if up = tc.uptime; tc.fold {
				_, _, err := s.Compact(t.Context())
				must(t, err)
			}
			if err := s.Update(t.Context(), put(3)); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
}

// rebuilt rebuilds the state from the earlier files, once.
func rebuilt(t *testing.T, dir string, complete bool) {
	t.Helper()
	n := 0
	s := persistence.New(persistence.Options{Dir: dir, Rebuild: func(left persistence.Salvaged) (reservation.Records, error) {
		n++
		if left.Complete != complete || len(left.Read.Attachments) == 0 {
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
	if kept, _ := filepath.Glob(filepath.Join(dir, "limpet.db.damaged-*")); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
}
