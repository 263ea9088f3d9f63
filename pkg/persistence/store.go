package persistence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
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
	// DefaultDir is where the state lives unless ipam.dataDir says otherwise.
	DefaultDir = "/var/lib/cni/limpet"
	// DefaultLockWait bounds how long a verb waits for its turn. It is shorter than
	// any runtime's own time-out, so that a person sees this error and not that one.
	DefaultLockWait = 20 * time.Second
	// PendingDir is the directory, beside the state, of the words that ADDs leave while
	// they wait for their turn. No network can have its name.
	PendingDir = ".pending"

	databaseName = "limpet.db"
	lockName     = "limpet.lock"
	markerName   = "limpet.marker"

	// reservedSize is the least size of a state file: room for the records of about 700 pods.
	reservedSize = 1 << 20
)

// Options say where the state is and how long to wait for it.
type Options struct {
	// Dir is the directory of the state; DefaultDir when empty.
	Dir string
	// LockWait bounds the wait for the lock; DefaultLockWait when 0.
	LockWait time.Duration
	// OnWait, unless it is nil, is called before a wait for the lock.
	OnWait func()
	// Rebuild says what a state begins with: a new one, and one that is made again
	// because it was lost or is damaged. It is called under the lock. Without it a new
	// state is empty, and a lost or damaged one is an error.
	Rebuild func(Salvaged) (reservation.Records, error)
}

// Store is the state of one node. It holds nothing open between calls, and may be
// used by many goroutines and processes at once.
type Store struct {
	dir     string
	wait    time.Duration
	onWait  func()
	rebuild func(Salvaged) (reservation.Records, error)
}

// New returns the store in o.Dir. It touches no file.
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

// Update runs fn in one read-write transaction, alone on the node. What fn did is
// on disk when Update returns nil, and has not happened when it returns an error.
// The first Update on a node makes the state. One that finds it lost or damaged makes
// it again, and then runs fn once more.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := s.makeDir(); err != nil {
		return err
	}
	err := s.locked(ctx, unix.LOCK_EX, func() error {
		err := s.update(fn)
		if s.rebuild == nil || !LostOrDamaged(err) {
			return err
		}
		if failed := s.recover(err); failed != nil {
			return errors.Join(err, failed)
		}
		return s.update(fn)
	})
	if errors.Is(err, ErrUnchanged) {
		return nil
	}
	return err
}

func (s *Store) update(fn func(*Tx) error) error {
	if err := s.ensure(); err != nil {
		return err
	}
	return s.withDB(&bolt.Options{Timeout: s.wait}, func(db *bolt.DB) error {
		return db.Update(func(tx *bolt.Tx) error {
			if err := migrate(tx); err != nil {
				return err
			}
			return fn(&Tx{tx: tx})
		})
	})
}

// View runs fn in one read-only transaction; in one that writes nothing, where the file
// has to be made again or is older than this version. It returns ErrNoState on a node where
// no state was made yet.
func (s *Store) View(ctx context.Context, fn func(*Tx) error) error {
	if initialized, err := s.Initialized(); err == nil && !initialized {
		return ErrNoState // and no lock file either, in a directory that may be another's
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

func (s *Store) view(fn func(*Tx) error) error {
	if err := s.present(); err != nil {
		return err
	}
	return s.withDB(&bolt.Options{Timeout: s.wait, ReadOnly: true}, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			if err := errors.Join(checkSchema(tx), checkBuckets(tx)); err != nil {
				return err
			}
			return fn(&Tx{tx: tx})
		})
	})
}

func (s *Store) locked(ctx context.Context, how int, fn func() error) (err error) {
	l, err := flock.LockAfter(ctx, filepath.Join(s.dir, lockName), how, s.wait, s.onWait)
	if how == unix.LOCK_SH && errors.Is(err, unix.EROFS) {
		return fn() // there is no lock file, and none can be made; bbolt's own lock on the database does for a reader
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return fn()
}

// errReplaced says that the file that was opened has lost its name to another.
var errReplaced = errors.New("was replaced meanwhile")

// withDB opens the database, runs fn and closes it. Where Compact put another file in its
// place between the opening and bbolt's lock, it opens that one: the lock on the lock file
// keeps them apart, unless somebody removed that.
func (s *Store) withDB(o *bolt.Options, fn func(*bolt.DB) error) error {
	const most = 10 // a bound, where one is the rule
	var err error
	for range most {
		if err = s.openDB(o, fn); !errors.Is(err, errReplaced) {
			break
		}
	}
	return err
}

// openDB does so with the file as it finds it. A damaged one makes bbolt panic or fault
// on its memory map; both become ErrDamaged here.
func (s *Store) openDB(o *bolt.Options, fn func(*bolt.DB) error) (err error) {
	path := filepath.Join(s.dir, databaseName)
	var file *os.File // bbolt's own, which it leaves locked when it panics
	o.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := openChecked(name, flag, mode)
		file = f
		return f, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			abandon(file)
			err = fmt.Errorf("read %s: %v: %w", path, p, ErrDamaged)
		}
	}()
	db, err := bolt.Open(path, 0o600, o)
	switch {
	case errors.Is(err, ErrDamaged):
		return fmt.Errorf("open %s: %w", path, err)
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("open %s: %w", path, ErrLocked)
	case errors.As(err, new(unix.Errno)): // the disk or the rights are at fault, not the file
		return fmt.Errorf("open state: %w", err)
	case err != nil:
		return fmt.Errorf("open %s: %w: %w", path, err, ErrDamaged)
	}
	if err = current(file, path); err == nil {
		err = fn(db)
	}
	if errors.Is(err, bolterrors.ErrIncompatibleValue) { // an entry that should be a bucket, or a bucket that should be none
		err = fmt.Errorf("read %s: %w: %w", path, err, ErrDamaged)
	}
	return errors.Join(err, db.Close())
}

// current fails for a file that is not the one at a path, or not any more.
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

// openChecked opens a file for bbolt if it is one that bbolt can be trusted with: it
// would take an empty file for a new one, and an older state for the newest. It makes none.
func openChecked(name string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = salvage.Check(f, info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if flag&os.O_RDWR != 0 && holes(info) > reservedSize/2 { // it has grown
		allocate(f, info.Size())
	}
	return f, nil
}

// holes returns how much of a file has no space on disk.
func holes(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return info.Size() - st.Blocks*512
	}
	return 0
}

// abandon gives up a file that bbolt left open. Its lock must be dropped by name: the
// memory map would hold it beyond the close. The damage is the news, not these.
func abandon(f *os.File) {
	if f != nil {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		_ = f.Close()
	}
}
