package persistence_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestRandomDamage damages some files of a state at random and runs a verb. The verb succeeds, the new files are sound, and
// hold no record that there never was. While one of the folds and the journals are whole, nothing is lost.
func TestRandomDamage(t *testing.T) {
	const rounds = 60
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	good := filledState(t)
	kept, rebuilt := 0, 0
	for round := range rounds {
		dir := t.TempDir()
		bad, single := damagedState(r, good)
		bad.write(t, dir)
		s := persistence.New(persistence.Options{Dir: dir, Rebuild: asRead})
		all := everything(t, s, seed, round)
		for _, a := range all.Attachments {
			if want := attachment(int(a.Seq)); a.ID != want.ID || !slices.Equal(a.Addresses, want.Addresses) {
				t.Errorf("seed %d, round %d: there never was %+v", seed, round, a)
			}
		}
		if n := len(all.Attachments) + len(all.Reservations); single && n != 400 {
			t.Errorf("seed %d, round %d: %d of 400 records are left", seed, round, n)
		}
		kept += len(all.Attachments)
		backups, _ := filepath.Glob(filepath.Join(dir, "limpet.db*.damaged-*"))
		for _, b := range backups {
			name, _, _ := strings.Cut(filepath.Base(b), ".damaged-")
			if data, err := os.ReadFile(b); err != nil || !slices.Equal(data, bad[name]) {
				t.Errorf("seed %d, round %d: %s was changed: %v", seed, round, b, err)
			}
		}
		if rebuilt += min(len(backups), 1); len(backups) > 0 {
			sound(t, persistence.ActiveFold(dir))
		}
	}
	t.Logf("rebuilt %d of %d, %d of %d attachments survived", rebuilt, rounds, kept, rounds*200)
	if rebuilt < rounds/10 || kept < rounds*200/2 {
		t.Errorf("seed %d: rebuilt %d, kept %d: the test tests little, or too little survives", seed, rebuilt, kept)
	}
}

// files are the contents of a state's files by name.
type files map[string][]byte

func (f files) write(t testing.TB, dir string) {
	t.Helper()
	for name, data := range f {
		must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
}

// filesOf reads the files of a state.
func filesOf(t testing.TB, dir string) files {
	t.Helper()
	all := files{}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		all[e.Name()] = data
	}
	return all
}

// damagedState damages a fold, or some of all files. The marker stays: without it a lost state is a new one.
func damagedState(r *rand.Rand, good files) (bad files, single bool) {
	bad = maps.Clone(good)
	if single = r.IntN(2) == 0; single {
		name := []string{"limpet.db", "limpet.db.2"}[r.IntN(2)]
		bad[name] = damaged(r, good[name])
		return bad, single
	}
	for _, name := range []string{"limpet.db", "limpet.db.2", "limpet.journal", "limpet.journal.last"} {
		if r.IntN(3) == 0 {
			bad[name] = damaged(r, good[name])
		}
	}
	return bad, single
}

// everything reads all records in one Update, which rebuilds a damaged state.
func everything(t *testing.T, s *persistence.Store, seed uint64, round int) reservation.Records {
	t.Helper()
	var all reservation.Records
	err := s.Update(t.Context(), func(tx *persistence.Tx) error {
		as, err := tx.Attachments("net")
		rs, err2 := tx.Reservations("net")
		all = reservation.Records{Attachments: as, Reservations: rs}
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		for _, a := range as { // which compares the index with the records
			if err := tx.PutAttachment(a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("seed %d, round %d: %v", seed, round, err)
	}
	return all
}

// asRead rebuilds from the file alone, including unreferenced records.
func asRead(left persistence.Salvaged) (reservation.Records, error) {
	in := reservation.RebuildInput{Now: moment, Read: left.Read, Complete: left.Complete, Unreferenced: left.Unreferenced, Alive: func(reservation.Attachment) bool { return true }}
	return reservation.PlanRebuild(in).Records, nil
}

// filledState returns a state of 200 attachments and as many reservations, which was folded several times.
func filledState(t *testing.T) files {
	t.Helper()
	dir := t.TempDir()
	s := persistence.New(persistence.Options{Dir: dir})
	for from := 0; from < 200; from += 20 {
		update(t, s, func(tx *persistence.Tx) error {
			for i := from; i < from+20; i++ {
				if err := errors.Join(tx.PutAttachment(attachment(i)), tx.PutReservation(reserve(attachment(1000+i)))); err != nil {
					return err
				}
			}
			return tx.SetConfig("net", []byte("[]"))
		})
	}
	return filesOf(t, dir)
}

// damaged returns a copy of which parts are zeroed, flipped, shifted or cut off.
func damaged(r *rand.Rand, good []byte) []byte {
	bad := slices.Clone(good)
	used := len(bytes.TrimRight(good, "\x00"))
	for range 1 + r.IntN(3) {
		from := r.IntN(min(used, len(bad)))
		to := min(from+1+r.IntN(8192), len(bad))
		switch r.IntN(5) {
		case 0:
			clear(bad[from:to])
		case 1:
			for range 1 + r.IntN(20) {
				bad[r.IntN(min(used, len(bad)))] ^= 1 << r.IntN(8)
			}
		case 2:
			copy(bad[from:to], good[r.IntN(used):])
		case 3: // a write that went to the wrong page
			page := from / 4096 * 4096
			copy(bad[page:min(page+4096, len(bad))], good[r.IntN(1+used/4096)*4096:])
		case 4:
			if r.IntN(4) == 0 {
				bad = bad[:max(from, 1)]
			}
		}
	}
	return bad
}

// sound fails the test when bbolt finds a fault in a file.
func sound(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	must(t, err)
	must(t, errors.Join(db.View(func(tx *bolt.Tx) error {
		var all []error
		for err := range tx.Check() {
			all = append(all, err)
		}
		return errors.Join(all...)
	}), db.Close()))
}

// TestDamagedFilesAreBounded damages the state more often than damaged files are kept.
func TestDamagedFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	s := persistence.New(persistence.Options{Dir: dir, Rebuild: asRead})
	for i := range 9 {
		update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(i)) })
		zero(0, 4096)(t, persistence.ActiveFold(dir))
	}
	view(t, s, func(tx *persistence.Tx) error {
		if n := tx.Recoveries(); n != 9 {
			t.Errorf("counted %d recoveries, want 9", n)
		}
		return nil
	})
	backups, err := filepath.Glob(filepath.Join(dir, "limpet.db.damaged-*"))
	must(t, err)
	if len(backups) != 5 {
		t.Errorf("kept %q", backups)
	}
}

// TestRecoveryAfterACrash recovers again after a crash behind each step of a recovery.
func TestRecoveryAfterACrash(t *testing.T) {
	for name, left := range map[string]func(t *testing.T, dir string){
		"a half-made new file": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "limpet.db.new"), []byte("half"), 0o600))
		},
		"the second name of the old":   linkAside,
		"an earlier one of the second": func(t *testing.T, dir string) { linkAside(t, dir); replace(t, persistence.ActiveFold(dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := persistence.New(persistence.Options{Dir: dir, Rebuild: asRead})
			update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
			zero(0, 4096)(t, persistence.ActiveFold(dir))
			left(t, dir)
			view(t, s, func(tx *persistence.Tx) error {
				_, found, err := tx.Attachment(attachment(1).ID)
				if !found {
					t.Error("the attachment is gone")
				}
				return err
			})
		})
	}
}

func linkAside(t *testing.T, dir string) {
	path := persistence.ActiveFold(dir)
	info, err := os.Stat(path)
	must(t, err)
	must(t, os.Link(path, fmt.Sprintf("%s.damaged-%s", path, info.ModTime().UTC().Format("20060102T150405.000000000Z"))))
}

// replace replaces a file by a copy with the same content and time.
func replace(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	must(t, os.Remove(path))
	must(t, os.WriteFile(path, data, 0o600))
	must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// TestRecoveryIsBoundedByTheMetaPage rebuilds a file that a wrong number made 64 GiB large: what is behind the pages of the
// meta page is neither read nor given space.
func TestRecoveryIsBoundedByTheMetaPage(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir(), Rebuild: asRead})
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
	path := persistence.ActiveFold(s.Dir())
	must(t, os.Truncate(path, 64<<30))
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(2)) })
	if info, err := os.Stat(path); err != nil || info.Sys().(*syscall.Stat_t).Blocks*512 > 128<<20 {
		t.Errorf("%+v, %v: the hole was given space", info, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(make([]byte, 4096), 0)
	must(t, errors.Join(err, f.Close()))
	view(t, s, func(tx *persistence.Tx) error {
		all, err := tx.Attachments("net")
		if len(all) != 2 {
			t.Errorf("%d attachments are left, want 2", len(all))
		}
		return err
	})
	if info, err := os.Stat(path); err != nil || info.Size() > 4<<20 {
		t.Errorf("%+v, %v: the new file is large", info, err)
	}
}
