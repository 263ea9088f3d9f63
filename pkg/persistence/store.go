package persistence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
	"github.com/limpet-io/limpet/pkg/persistence/internal/salvage"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	// DefaultDir is the default of ipam.dataDir, the directory of the state.
	DefaultDir = "/var/lib/cni/limpet"
	// DefaultLockWait bounds how long a verb waits for the lock. It is shorter than the time-outs of the runtimes, so
	// that users see the error of the lock.
	DefaultLockWait = 20 * time.Second
	// PendingDir is the directory for the marker files of ADDs that wait for the lock. No network can have this name.
	PendingDir = ".pending"

	databaseName = "limpet.db"
	lockName     = "limpet.lock"
	markerName   = "limpet.marker"

	// reservedSize is the smallest size of a state file, enough for the records of about 700 pods.
	reservedSize = 1 << 20
)

// Options configure a Store.
type Options struct {
	// Dir is the directory of the state; DefaultDir when empty.
	Dir string
	// LockWait bounds the wait for the lock; DefaultLockWait when 0.
	LockWait time.Duration
	// OnWait, unless it is nil, is called before a wait for the lock.
	OnWait func()
	// Rebuild returns the records of a new state, and of a state that is rebuilt because it was lost or damaged. It is
	// called under the lock. When it is nil a new state is empty, and a lost or damaged state is an error.
	Rebuild func(Salvaged) (reservation.Records, error)
}

// Store is the state of one node. No file stays open between calls. Many goroutines and processes may use the state at
// once.
type Store struct {
	dir     string
	wait    time.Duration
	onWait  func()
	rebuild func(Salvaged) (reservation.Records, error)
}

// New returns the store in o.Dir. No file is opened yet.
func New(o Options) *Store {
	s := &Store{dir: o.Dir, wait: o.LockWait, onWait: o.OnWait, rebuild: o.Rebuild}
	if s.dir == "" {
		s.dir = DefaultDir
	}
	if s.wait == 0 {
		s.wait = DefaultLockWait
	}
	return s
}

// Dir returns the directory of the state.
func (s *Store) Dir() string { return s.dir }

// Update runs fn in one read-write transaction, alone on the node. The changes are on disk when Update returns nil, and
// are discarded when Update returns an error. The first Update on a node creates the state. An Update that finds the
// state lost or damaged rebuilds it and then runs fn again.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := s.makeDir(); err != nil {
		return err
	}
	err := s.locked(ctx, unix.LOCK_EX, func() error {
		err := s.updateAndShrink(fn)
		if s.rebuild == nil || !LostOrDamaged(err) {
			return err
		}
		if failed := s.recover(err); failed != nil {
			return errors.Join(err, failed)
		}
		return s.updateAndShrink(fn)
	})
	if errors.Is(err, ErrUnchanged) {
		return nil
	}
	return err
}

// updateAndShrink runs fn under the lock that the caller holds, and compacts a file that is mostly free afterwards. The
// changes are on disk by then, so a failure of that is no failure of the update.
func (s *Store) updateAndShrink(fn func(*Tx) error) error {
	mostlyFree, err := s.update(fn)
	if err == nil && mostlyFree {
		_, _, _ = s.compact() // the next update tries again
	}
	return err
}

// update creates the state on a new node, and runs fn under the lock that the caller holds. It reports whether the file
// is much too large for what it holds.
func (s *Store) update(fn func(*Tx) error) (mostlyFree bool, err error) {
	if err := s.ensure(); err != nil {
		return false, err
	}
	marked, err := s.markedGeneration()
	if err != nil {
		return false, err
	}
	err = s.withDB(&bolt.Options{Timeout: s.wait}, func(db *bolt.DB) error {
		var committed uint64
		err := db.Update(func(tx *bolt.Tx) error {
			if err := migrate(tx); err != nil {
				return err
			}
			if err := checkGeneration(tx, marked); err != nil {
				return err
			}
			t := &Tx{tx: tx}
			if err := fn(t); err != nil {
				return err
			}
			kept := t.orderKept()
			if committed, err = raiseGeneration(tx, 0); err == nil && kept {
				err = t.markOrder(committed)
			}
			return err
		})
		if err == nil {
			s.markGeneration(committed)
			mostlyFree = shrinkable(db)
		}
		return err
	})
	return mostlyFree, err
}

// View runs fn in one read-only transaction. When the file must be rebuilt, or is older than this version, View runs fn
// in a read-write transaction that writes nothing. It returns ErrNoState on a node without a state.
func (s *Store) View(ctx context.Context, fn func(*Tx) error) error {
	if initialized, err := s.Initialized(); err == nil && !initialized {
		return ErrNoState // without creating a lock file: the directory may belong to another program
	}
	err := s.locked(ctx, unix.LOCK_SH, func() error { return s.view(fn) })
	if !errors.Is(err, errOlder) && (s.rebuild == nil || !LostOrDamaged(err)) {
		return err
	}
	return s.Update(ctx, func(tx *Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return ErrUnchanged
	})
}

// view runs fn under the lock that the caller holds.
func (s *Store) view(fn func(*Tx) error) error {
	if err := s.present(); err != nil {
		return err
	}
	marked, err := s.markedGeneration() // before the database is opened, which is never behind the marker
	if err != nil {
		return err
	}
	return s.withDB(&bolt.Options{Timeout: s.wait, ReadOnly: true}, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			if err := errors.Join(checkSchema(tx), checkBuckets(tx, buckets, errOlder)); err != nil {
				return err
			}
			if err := checkGeneration(tx, marked); err != nil {
				return err
			}
			return fn(&Tx{tx: tx})
		})
	})
}

// locked runs fn while holding the lock file.
func (s *Store) locked(ctx context.Context, how int, fn func() error) (err error) {
	l, err := s.lock(ctx, how)
	if how == unix.LOCK_SH && errors.Is(err, unix.EROFS) {
		return fn() // no lock file can be created; bbolt's own lock on the database is enough for a reader
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return fn()
}

// lock takes the lock file: writers in the order of their calls, readers as the kernel lets them.
func (s *Store) lock(ctx context.Context, how int) (*os.File, error) {
	path := filepath.Join(s.dir, lockName)
	if how == unix.LOCK_SH {
		return flock.LockAfter(ctx, path, how, s.wait, s.onWait)
	}
	return flock.LockInTurn(ctx, path, s.wait, s.onWait)
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
