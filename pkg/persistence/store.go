package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

const (
	// DefaultDir is where the state lives unless ipam.dataDir says otherwise.
	DefaultDir = "/var/lib/cni/limpet"
	// DefaultLockWait bounds how long a verb waits for its turn. It is shorter than
	// any runtime's own time-out, so that a person sees this error and not that one.
	DefaultLockWait = 20 * time.Second

	databaseName = "limpet.db"
	lockName     = "limpet.lock"
	markerName   = "limpet.marker"

	// schema is the version of the layout. Additions are new buckets and keep it,
	// so that a plugin of one version back still reads the file.
	schema = 1
)

// Options say where the state is and how long to wait for it.
type Options struct {
	// Dir is the directory of the state; DefaultDir when empty.
	Dir string
	// LockWait bounds the wait for the lock; DefaultLockWait when 0.
	LockWait time.Duration
}

// Store is the state of one node. It holds nothing open between calls, and may be
// used by many goroutines and processes at once.
type Store struct {
	dir  string
	wait time.Duration
}

// New returns the store in o.Dir. It touches no file.
func New(o Options) *Store {
	s := &Store{dir: o.Dir, wait: o.LockWait}
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
// The first Update on a node makes the state.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := s.makeDir(); err != nil {
		return err
	}
	err := s.locked(ctx, unix.LOCK_EX, func() error {
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
	})
	if errors.Is(err, ErrUnchanged) {
		return nil
	}
	return err
}

// View runs fn in one read-only transaction. It returns ErrNoState on a node
// where no state was made yet.
func (s *Store) View(ctx context.Context, fn func(*Tx) error) error {
	if _, err := os.Stat(s.dir); errors.Is(err, os.ErrNotExist) {
		return ErrNoState
	}
	return s.locked(ctx, unix.LOCK_SH, func() error {
		switch found, marked, err := s.look(); {
		case err != nil:
			return err
		case !found && marked:
			return s.lost()
		case !found:
			return ErrNoState
		}
		return s.withDB(&bolt.Options{Timeout: s.wait, ReadOnly: true}, func(db *bolt.DB) error {
			return db.View(func(tx *bolt.Tx) error {
				if err := checkSchema(tx); err != nil {
					return err
				}
				return fn(&Tx{tx: tx})
			})
		})
	})
}

func (s *Store) locked(ctx context.Context, how int, fn func() error) (err error) {
	l, err := lock(ctx, filepath.Join(s.dir, lockName), how, s.wait)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return fn()
}

// withDB opens the database, runs fn and closes it. A damaged file makes bbolt
// panic or fault on its memory map; both become ErrDamaged here.
func (s *Store) withDB(o *bolt.Options, fn func(*bolt.DB) error) (err error) {
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
	err = fn(db)
	return errors.Join(err, db.Close())
}

// openChecked opens a file for bbolt if it is one that bbolt can be trusted with: it
// would take an empty file for a new one, and an older state for the newest.
func openChecked(name string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkMetas(f, info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// abandon gives up a file that bbolt left open. Its lock must be dropped by name: the
// memory map would hold it beyond the close. The damage is the news, not these.
func abandon(f *os.File) {
	if f != nil {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		_ = f.Close()
	}
}

// look reports whether the database and the marker are there.
func (s *Store) look() (found, marked bool, err error) {
	for _, f := range []struct {
		name string
		is   *bool
	}{{databaseName, &found}, {markerName, &marked}} {
		_, err := os.Stat(filepath.Join(s.dir, f.name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, false, fmt.Errorf("look for state: %w", err)
		}
		*f.is = err == nil
	}
	return found, marked, nil
}

func (s *Store) lost() error {
	return fmt.Errorf("%s is missing although %s says that it was made: restore it, or remove the marker when no pod runs on this node: %w",
		filepath.Join(s.dir, databaseName), filepath.Join(s.dir, markerName), ErrLost)
}

// ensure makes the database on a new node. It appears under its name complete, and
// the marker after it, so that no crash leaves something that looks lost.
func (s *Store) ensure() error {
	found, marked, err := s.look()
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

// makeDir makes the directory so that it outlasts a power loss.
func (s *Store) makeDir() error {
	if _, err := os.Stat(s.dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	return syncDir(filepath.Dir(s.dir))
}

func (s *Store) create() error {
	temp := filepath.Join(s.dir, databaseName+".new")
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove left-over: %w", err)
	}
	db, err := bolt.Open(temp, 0o600, nil)
	if err != nil {
		return fmt.Errorf("create state file: %w", err)
	}
	if err := errors.Join(db.Update(makeBuckets), db.Close()); err != nil {
		return fmt.Errorf("create state file: %w", err)
	}
	if err := os.Rename(temp, filepath.Join(s.dir, databaseName)); err != nil {
		return fmt.Errorf("create state file: %w", err)
	}
	return syncDir(s.dir)
}

func (s *Store) mark() error {
	text := "Limpet keeps the state of this node beside this file. Without its database the state is lost, not new.\n"
	f, err := os.OpenFile(filepath.Join(s.dir, markerName), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write marker: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write marker: %w", err)
	}
	return syncDir(s.dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// migrate makes the buckets that an earlier version did not have, and refuses a
// later schema.
func migrate(tx *bolt.Tx) error {
	if err := checkSchema(tx); err != nil {
		return err
	}
	return makeBuckets(tx)
}

func makeBuckets(tx *bolt.Tx) error {
	for _, name := range buckets {
		if tx.Bucket(name) != nil {
			continue
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
	}
	if meta := tx.Bucket(bucketMeta); meta.Get(keySchema) == nil {
		return meta.Put(keySchema, binary.BigEndian.AppendUint32(nil, schema))
	}
	return nil
}

func checkSchema(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return fmt.Errorf("no schema: %w", ErrDamaged) // it is there before the file has its name
	}
	v := meta.Get(keySchema)
	if len(v) != 4 {
		return fmt.Errorf("schema of %d bytes: %w", len(v), ErrDamaged)
	}
	if binary.BigEndian.Uint32(v) > schema {
		return fmt.Errorf("schema %d, this version reads up to %d: install the newer limpet-ipam again: %w", binary.BigEndian.Uint32(v), schema, ErrNewer)
	}
	return nil
}
