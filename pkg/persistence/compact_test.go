package persistence_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// grown returns a state that once held many attachments and now holds a few.
func grown(t *testing.T) *persistence.Store {
	t.Helper()
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error {
		for i := range 2000 {
			if _, err := tx.NextSeq(); err != nil {
				return err
			}
			if err := tx.PutAttachment(attachment(i)); err != nil {
				return err
			}
		}
		return errors.Join(tx.SetConfig("net", []byte("[]")), tx.SetCursor("net", 0, v4(1999)))
	})
	update(t, s, func(tx *persistence.Tx) error {
		for i := 3; i < 2000; i++ {
			if err := tx.DeleteAttachment(attachment(i).ID); err != nil {
				return err
			}
		}
		return tx.PutReservation(reserve(attachment(7)))
	})
	return s
}

func records(t *testing.T, s *persistence.Store) (all reservation.Records) {
	t.Helper()
	view(t, s, func(tx *persistence.Tx) (err error) {
		all, err = tx.Records()
		return err
	})
	return all
}

func TestCompactKeepsTheRecords(t *testing.T) {
	s := grown(t)
	must(t, os.WriteFile(filepath.Join(s.Dir(), "limpet.db.new"), []byte("cut short"), 0o600))
	want := records(t, s)
	before, after, err := s.Compact(t.Context())
	must(t, err)
	info, err := os.Stat(persistence.ActiveFold(s.Dir()))
	must(t, err)
	if after >= before || info.Size() > after+1<<20 || info.Mode().Perm() != 0o600 {
		t.Errorf("from %d to %d bytes, the file has %d and mode %v", before, after, info.Size(), info.Mode())
	}
	if diff := cmp.Diff(want, records(t, s), byValue); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	report, err := s.Audit(t.Context(), nil)
	must(t, err)
	if len(report.Faults) != 0 {
		t.Errorf("faults: %v", report.Faults)
	}
	update(t, s, func(tx *persistence.Tx) error {
		seq, err := tx.NextSeq()
		configs, errConfigs := tx.Networks()
		if seq != 2001 || len(configs) != 1 || tx.Cursor("net", 0) != v4(1999) {
			t.Errorf("next number %d, configurations %v, cursor %s", seq, configs, tx.Cursor("net", 0))
		}
		return errors.Join(err, errConfigs)
	})

	again, same, err := s.Compact(t.Context())
	must(t, err)
	if same > again {
		t.Errorf("from %d to %d bytes", again, same)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir(), "*.new")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestCompactAmongVerbs compacts while others write: no write is lost.
func TestCompactAmongVerbs(t *testing.T) {
	s := grown(t)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 20 {
				a := attachment(1000 + w*100 + i)
				if err := s.Update(t.Context(), func(tx *persistence.Tx) error { return tx.PutAttachment(a) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 10 {
		if _, _, err := s.Compact(t.Context()); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	if n := len(records(t, s).Attachments); n != 3+80 {
		t.Errorf("%d attachments, want 83", n)
	}
}

// TestAVerbNoticesThatTheFileWasReplaced replaces the file while a verb has opened it and waits for bbolt's lock: the
// verb must not write to the old file.
func TestAVerbNoticesThatTheFileWasReplaced(t *testing.T) {
	s := audited(t)
	path := persistence.ActiveFold(s.Dir())
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	done := make(chan error, 1)
	go func() {
		done <- s.Update(t.Context(), func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1000)) })
	}()
	for deadline := time.Now().Add(time.Minute); openTimes(t, path) < 2; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the verb does not open the file")
		}
	}
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path+".copy", data, 0o600))
	must(t, os.Rename(path+".copy", path))
	must(t, db.Close())
	must(t, <-done)
	view(t, s, func(tx *persistence.Tx) error {
		if _, found, err := tx.Attachment(attachment(1000).ID); !found || err != nil {
			t.Errorf("found %t, %v", found, err)
		}
		return nil
	})
}

// openTimes counts the open descriptors of a file in this process.
func openTimes(t *testing.T, path string) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	n := 0
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && to == path {
			n++
		}
	}
	return n
}

func TestCompactLeavesDamagedFilesAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*testing.T, *persistence.Store)
		want   error
	}{
		"a newer schema": {func(t *testing.T, s *persistence.Store) {
			later(t, persistence.ActiveFold(s.Dir()))
		}, persistence.ErrNewer},
		"half a file": {func(t *testing.T, s *persistence.Store) {
			must(t, os.Truncate(persistence.ActiveFold(s.Dir()), 8192))
		}, persistence.ErrDamaged},
		"a lost file": {func(t *testing.T, s *persistence.Store) {
			must(t, os.Remove(persistence.ActiveFold(s.Dir())))
		}, persistence.ErrLost},
		"no state": {func(t *testing.T, s *persistence.Store) { must(t, os.RemoveAll(s.Dir())) }, persistence.ErrNoState},
	} {
		t.Run(name, func(t *testing.T) {
			s := grown(t)
			tc.change(t, s)
			was, _ := os.ReadFile(persistence.ActiveFold(s.Dir()))
			if _, _, err := s.Compact(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			is, _ := os.ReadFile(persistence.ActiveFold(s.Dir()))
			if string(was) != string(is) {
				t.Error("the file was changed")
			}
		})
	}
}
