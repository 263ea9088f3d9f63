package persistence

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/internal/salvage"
)

// makeDir creates the directory. It survives a power loss once the marker is written.
func (s *Store) makeDir() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	return nil
}

// stat reports whether the database and the marker exist.
func (s *Store) stat() (found, marked bool, err error) {
	for _, f := range []struct {
		name string
		is   *bool
	}{{databaseName, &found}, {markerName, &marked}} {
		info, err := os.Stat(filepath.Join(s.dir, f.name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, false, fmt.Errorf("look for state: %w", err)
		}
		*f.is = err == nil && (f.name == databaseName || info.Mode().IsRegular())
	}
	return found, marked, nil
}

// Initialized reports whether a state was ever created in the directory.
func (s *Store) Initialized() (bool, error) {
	found, marked, err := s.stat()
	return found || marked, err
}

// lost returns ErrLost with the names of the files.
func (s *Store) lost() error {
	return fmt.Errorf("%s is missing although %s says that it was created: %w",
		filepath.Join(s.dir, databaseName), filepath.Join(s.dir, markerName), ErrLost)
}

// ensure creates the database on a new node. The complete database gets its name first and the marker comes after it,
// so that a crash in between does not look like a lost state.
func (s *Store) ensure() error {
	found, marked, err := s.stat()
	switch {
	case err != nil:
		return err
	case found && marked:
		return nil
	case marked:
		return s.lost()
	case !found:
		if err := s.create(); err != nil {
			return err
		}
	}
	return s.mark()
}

// errReplaced is returned when another file has taken the name of the opened one.
var errReplaced = errors.New("was replaced meanwhile")

// withDB opens the database, runs fn and closes the database. It tries again when Compact has replaced the file between
// the opening and bbolt's lock, which happens only when a person has removed the lock file.
func (s *Store) withDB(o *bolt.Options, fn func(*bolt.DB) error) error {
	const most = 10 // one try is enough, almost always
	var err error
	for range most {
		if err = s.openDB(o, fn); !errors.Is(err, errReplaced) {
			break
		}
	}
	return err
}

// openDB opens the database once, runs fn and closes the database.
func (s *Store) openDB(o *bolt.Options, fn func(*bolt.DB) error) error {
	most := int64(0)
	o.OpenFile = func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
		f, most, err = openChecked(name, flag, mode)
		return f, err
	}
	return s.openAs(o, func(f *os.File) error { return current(f, filepath.Join(s.dir, databaseName)) }, func(db *bolt.DB) error {
		db.MaxSize = int(most)
		return fn(db)
	})
}

// openAs opens the file that o.OpenFile returns, runs fn if the file passes the test, and closes the file. bbolt panics or
// faults on its memory map when the file is damaged; both become ErrDamaged. A panic of fn stays one.
func (s *Store) openAs(o *bolt.Options, test func(*os.File) error, fn func(*bolt.DB) error) (err error) {
	path := filepath.Join(s.dir, databaseName)
	var file *os.File // opened for bbolt, which leaves the file locked when it panics
	open := o.OpenFile
	o.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := open(name, flag, mode)
		file = f
		return f, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			abandon(file)
			if !fileAtFault(p) {
				panic(p) // with the stack of the first panic
			}
			err = fmt.Errorf("read %s: %v: %w", path, p, ErrDamaged)
		}
	}()
	db, err := bolt.Open(path, 0o600, o)
	switch {
	case errors.Is(err, ErrDamaged):
		return fmt.Errorf("open %s: %w", path, err)
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("open %s: %w", path, ErrLocked)
	case errors.Is(err, unix.EFBIG) || errors.Is(err, unix.ENOMEM): // a page says that the file is far larger
		return fmt.Errorf("open %s: %w: %w", path, err, ErrDamaged)
	case errors.As(err, new(unix.Errno)): // the disk or the permissions are at fault, not the file
		return fmt.Errorf("open state: %w", err)
	case err != nil:
		return fmt.Errorf("open %s: %w: %w", path, err, ErrDamaged)
	}
	if o.ReadOnly {
		read := fn
		fn = func(db *bolt.DB) error { return boundResident(db, read) }
	}
	if err = test(file); err == nil {
		err = fn(db)
	}
	if slices.ContainsFunc(damages, func(damage error) bool { return errors.Is(err, damage) }) {
		err = fmt.Errorf("read %s: %w: %w", path, err, ErrDamaged)
	}
	return errors.Join(err, db.Close())
}

// damages are errors of a transaction that a damaged page causes: an entry in place of a bucket, or the other way round; and
// a number of pages that no verb needs.
var damages = []error{bolterrors.ErrIncompatibleValue, bolterrors.ErrMaxSizeReached, unix.EFBIG, unix.ENOMEM}

// current fails when an opened file is not the file at the path.
func current(f *os.File, path string) error {
	opened, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at open state: %w", err)
	}
	named, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("look at state: %w", err)
	}
	if err != nil || !os.SameFile(opened, named) {
		return fmt.Errorf("%s: %w", path, errReplaced)
	}
	return nil
}

// openChecked opens an existing file for bbolt, after a check: bbolt would take an empty file for a new one, and an older
// state for the newest. It returns how large the file may get.
func openChecked(name string, flag int, mode os.FileMode) (f *os.File, most int64, err error) {
	f, err = os.OpenFile(name, flag&^os.O_CREATE|unix.O_NONBLOCK, mode) // a pipe would wait for a writer
	if err != nil {
		return nil, 0, err
	}
	if most, err = check(f, false); err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	if flag&os.O_RDWR != 0 && holes(info) > reservedSize/2 { // the file has grown
		allocate(f, min(info.Size(), most))
	}
	return f, most, nil
}

// check fails for a file that bbolt cannot open as a state.
func check(f *os.File, isCopy bool) (most int64, err error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("no regular file but %s: %w", info.Mode(), ErrDamaged)
	}
	if err != nil {
		return 0, err
	}
	return salvage.Check(f, info.Size(), isCopy)
}

// holes returns how many bytes of a file have no space on disk.
func holes(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return info.Size() - st.Blocks*512
	}
	return 0
}

// abandon closes a file that bbolt left open. The lock is released explicitly, because the memory map would keep it
// beyond the close. Errors are ignored: the caller reports the damage.
func abandon(f *os.File) {
	if f != nil {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		_ = f.Close()
	}
}

// The generation of a state is a number that each commit raises. The marker repeats the generation after the commit. So
// a database whose generation is lower than that of the marker is an earlier one that was put in its place.
//
// The write of the marker is not synced: a second sync would cost as much as the commit. After a power loss the
// marker may be behind, never ahead. The first generation of a database is the time of its file in nanoseconds: a
// database of another history, made before, has a lower generation.

// markerText is the first line of the marker. The generation follows in a line of its own.
const markerText = "Limpet keeps the state of this node beside this file. If the database is missing, the state is lost, and the node is not new.\n"

// generationWord begins the second line of the marker, which has a number of generationDigits and a checksum.
const (
	generationWord   = "generation "
	generationDigits = 20
	generationSize   = len(generationWord) + generationDigits + len(" 01234567\n")
)

// generationLine returns the second line of the marker, always of the same length.
func generationLine(n uint64) []byte {
	line := fmt.Appendf(make([]byte, 0, generationSize), "%s%0*d", generationWord, generationDigits, n)
	return fmt.Appendf(line, " %08x\n", crc32.ChecksumIEEE(line))
}

// markedGeneration returns the generation in the marker; 0 when there is no marker, or one that says nothing.
func (s *Store) markedGeneration() (uint64, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, markerName), os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for a writer
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read marker: %w", err)
	}
	defer func() { _ = f.Close() }() // opened for reading only
	line := make([]byte, generationSize)
	if n, err := f.ReadAt(line, int64(len(markerText))); errors.Is(err, unix.ESPIPE) {
		return 0, nil
	} else if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read marker: %w", err)
	} else if n < generationSize || string(line[:len(generationWord)]) != generationWord {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(line[len(generationWord):][:generationDigits]), 10, 64)
	if err != nil || !bytes.Equal(generationLine(n), line) {
		return 0, nil
	}
	return n, nil
}

// markGeneration writes the generation of a commit into the marker. Errors are ignored: the commit is done, and a marker
// that is behind detects less.
func (s *Store) markGeneration(n uint64) {
	f, err := os.OpenFile(filepath.Join(s.dir, markerName), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteAt(generationLine(n), int64(len(markerText)))
	_ = f.Close()
}
