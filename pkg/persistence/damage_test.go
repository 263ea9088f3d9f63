package persistence_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestDamagedStateIsNeverTakenForNew is rule 6: a damaged or lost file is neither read as an empty one nor written to,
// and the error says what is wrong.
func TestDamagedStateIsNeverTakenForNew(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(t *testing.T, path string)
		want   error
	}{
		"removed":                      {damage: func(t *testing.T, path string) { must(t, os.Remove(path)) }, want: persistence.ErrLost},
		"empty":                        {damage: truncate(0), want: persistence.ErrDamaged},
		"cut within a page":            {damage: truncate(100), want: persistence.ErrDamaged},
		"cut to one page":              {damage: truncate(4096), want: persistence.ErrDamaged},
		"cut to two pages":             {damage: truncate(8192), want: persistence.ErrDamaged},
		"cut in the middle":            {damage: truncate(16384), want: persistence.ErrDamaged},
		"zeroed":                       {damage: zero(0, -1), want: persistence.ErrDamaged},
		"both meta pages zeroed":       {damage: zero(0, 8192), want: persistence.ErrDamaged},
		"first meta page zeroed":       {damage: zero(0, 4096), want: persistence.ErrDamaged},
		"second meta page zeroed":      {damage: zero(4096, 8192), want: persistence.ErrDamaged},
		"cut behind what a verb reads": {damage: cutTail, want: persistence.ErrDamaged},
		"a flipped bit in a record":    {damage: flipBit, want: persistence.ErrDamaged},
		"data pages zeroed":            {damage: zero(8192, -1), want: persistence.ErrDamaged},
		"not a database": {damage: func(t *testing.T, path string) {
			must(t, os.WriteFile(path, bytes.Repeat([]byte("limpet\n"), 9000), 0o600))
		}, want: persistence.ErrDamaged},
		"a database of another program":  {damage: foreign, want: persistence.ErrDamaged},
		"written by a newer version":     {damage: later, want: persistence.ErrNewer},
		"a record that is not JSON":      {damage: badRecord, want: persistence.ErrDamaged},
		"a record at the key of another": {damage: misplaced, want: persistence.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := persistence.New(persistence.Options{Dir: dir})
			update(t, s, func(tx *persistence.Tx) error {
				for i := range 200 { // enough for several pages
					if err := tx.PutAttachment(attachment(i)); err != nil {
						return err
					}
				}
				return nil
			})
			path := persistence.ActiveFold(dir)
			tc.damage(t, path)
			path = persistence.ActiveFold(dir)
			before, _ := os.ReadFile(path) // none when it was removed

			read := func(tx *persistence.Tx) error {
				_, err := tx.Attachments("net")
				return err
			}
			if err := s.View(t.Context(), read); !errors.Is(err, tc.want) {
				t.Errorf("View: %v, want %v", err, tc.want)
			}
			write := func(tx *persistence.Tx) error {
				if err := read(tx); err != nil {
					return err
				}
				return tx.PutAttachment(attachment(300))
			}
			if err := s.Update(t.Context(), write); !errors.Is(err, tc.want) {
				t.Errorf("Update: %v, want %v", err, tc.want)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestRepairedStateCanBeOpened opens a file again after damage was found: no lock is left in this process.
func TestRepairedStateCanBeOpened(t *testing.T) {
	dir := t.TempDir()
	s := persistence.New(persistence.Options{Dir: dir})
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
	path := persistence.ActiveFold(dir)
	good, err := os.ReadFile(path)
	must(t, err)
	zero(8192, -1)(t, path)
	if err := s.Update(t.Context(), func(*persistence.Tx) error { return nil }); !errors.Is(err, persistence.ErrDamaged) {
		t.Fatalf("Update: %v, want %v", err, persistence.ErrDamaged)
	}
	must(t, os.WriteFile(path, good, 0o600))
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(2)) })
}

func TestNewNodeHasNoState(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: filepath.Join(t.TempDir(), "none")})
	err := s.View(t.Context(), func(*persistence.Tx) error { return nil })
	if !errors.Is(err, persistence.ErrNoState) {
		t.Errorf("View: %v, want %v", err, persistence.ErrNoState)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("View made %s", s.Dir())
	}
}

// TestCrashWhileCreatingLeavesNothingLost creates a state after a crash in each step of the creation.
func TestCrashWhileCreatingLeavesNothingLost(t *testing.T) {
	for name, left := range map[string][]string{
		"a database that is not complete": {"limpet.db.new"},
		"a database without a marker":     {"limpet.db"},
	} {
		t.Run(name, func(t *testing.T) {
			made, dir := t.TempDir(), t.TempDir()
			update(t, persistence.New(persistence.Options{Dir: made}), func(*persistence.Tx) error { return nil })
			data, err := os.ReadFile(persistence.ActiveFold(made))
			must(t, err)
			for _, f := range left {
				must(t, os.WriteFile(filepath.Join(dir, f), data, 0o600))
			}
			s := persistence.New(persistence.Options{Dir: dir})
			update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
		})
	}
}

func truncate(size int64) func(*testing.T, string) {
	return func(t *testing.T, path string) { must(t, os.Truncate(path, size)) }
}

// zero overwrites [from, to) with zeros; -1 is the end of the file.
func zero(from, to int) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		data, err := os.ReadFile(path)
		must(t, err)
		if to < 0 {
			to = len(data)
		}
		clear(data[from:to])
		must(t, os.WriteFile(path, data, 0o600))
	}
}

// TestEveryBitOfTheMetaPagesCounts flips each bit of both meta pages in turn.
func TestEveryBitOfTheMetaPagesCounts(t *testing.T) {
	dir := t.TempDir()
	s := persistence.New(persistence.Options{Dir: dir})
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
	path := persistence.ActiveFold(dir)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	flip := func(at int64, bit int) {
		b := make([]byte, 1)
		_, err := f.ReadAt(b, at)
		must(t, err)
		b[0] ^= 1 << bit
		_, err = f.WriteAt(b, at)
		must(t, err)
	}
	for _, page := range []int{0, os.Getpagesize()} {
		for bit := range 64 * 8 {
			at := int64(page + 16 + bit/8)
			flip(at, bit%8)
			if err := s.View(t.Context(), func(*persistence.Tx) error { return nil }); !errors.Is(err, persistence.ErrDamaged) {
				t.Errorf("page at %d, bit %d flipped: %v, want %v", page, bit, err, persistence.ErrDamaged)
			}
			flip(at, bit%8)
		}
	}
	view(t, s, func(*persistence.Tx) error { return nil })
	must(t, f.Close())
}

// cutTail removes the last pages of a file, most of which are not in use.
func cutTail(t *testing.T, path string) {
	var high int64
	inside(t, path, func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("filler"))
		high = tx.Size()
		return errors.Join(err, b.Put([]byte("x"), make([]byte, 1<<20)))
	})
	must(t, os.Truncate(persistence.ActiveFold(filepath.Dir(path)), high))
}

func flipBit(t *testing.T, path string) {
	inside(t, path, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("attachments"))
		k, v := b.Cursor().First()
		v = bytes.Replace(v, []byte("10.0.0.0"), []byte("10.0.0.1"), 1)
		return b.Put(k, v)
	})
}

func foreign(t *testing.T, path string) {
	must(t, os.Remove(path))
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, errors.Join(db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("something"))
		return err
	}), db.Close()))
}

// later writes the schema of a newer version, with its checksum.
func later(t *testing.T, path string) {
	inside(t, path, func(tx *bolt.Tx) error {
		v := binary.BigEndian.AppendUint32(nil, 99)
		sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(append([]byte("schema"), v...)))
		meta := tx.Bucket([]byte("meta"))
		return errors.Join(meta.Put([]byte("schema"), v), meta.Put([]byte("schemasum"), sum))
	})
}

func badRecord(t *testing.T, path string) {
	inside(t, path, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("attachments"))
		k, _ := b.Cursor().First()
		return b.Put(k, []byte("{"))
	})
}

func misplaced(t *testing.T, path string) {
	inside(t, path, func(tx *bolt.Tx) error {
		c := tx.Bucket([]byte("attachments")).Cursor()
		_, v := c.First()
		k, _ := c.Next()
		return tx.Bucket([]byte("attachments")).Put(k, v)
	})
}

// inside edits the state file as if its content had been written so.
func inside(t *testing.T, path string, fn func(*bolt.Tx) error) {
	t.Helper()
	must(t, persistence.Edit(filepath.Dir(path), fn))
}

// TestAnExistingStateIsNotBegun updates a state that is not there, for a caller that does not know which pods run.
func TestAnExistingStateIsNotBegun(t *testing.T) {
	dir := t.TempDir()
	s := persistence.New(persistence.Options{Dir: dir, Existing: true})
	never := func(*persistence.Tx) error { t.Error("called without a state"); return nil }
	if err := s.Update(t.Context(), never); !errors.Is(err, persistence.ErrNoState) {
		t.Errorf("without a state: %v, want ErrNoState", err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "limpet.[^l]*")); len(files) > 0 { // apart from the lock
		t.Errorf("a state was begun: %v", files)
	}
	update(t, persistence.New(persistence.Options{Dir: dir}), func(*persistence.Tx) error { return nil })
	update(t, s, func(*persistence.Tx) error { return nil })
}
