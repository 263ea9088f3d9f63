package persistence

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
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
	// Existing tells that Update returns ErrNoState on a node without a state. It is for callers that do not know which pods
	// run: a state without them would give their addresses to others.
	Existing bool
	// Rebuild returns the records of a new state, and of a state that is rebuilt because it was lost or damaged. It is
	// called under the lock. When it is nil a new state is empty, and a lost or damaged state is an error.
	Rebuild func(Salvaged) (reservation.Records, error)
	// Uptime returns the time since the start of the node; CLOCK_BOOTTIME when nil.
	Uptime func() time.Duration
}

// Store is the state of one node. No file stays open between calls. Many goroutines and processes may use the state at
// once.
type Store struct {
	dir     string
	wait    time.Duration
	onWait  func()
	begins  bool
	rebuild func(Salvaged) (reservation.Records, error)
	uptime  func() time.Duration
}

// New returns the store in o.Dir. No file is opened yet.
func New(o Options) *Store {
	s := &Store{dir: o.Dir, wait: o.LockWait, onWait: o.OnWait, begins: !o.Existing, rebuild: o.Rebuild, uptime: o.Uptime}
	if s.dir == "" {
		s.dir = DefaultDir
	}
	if s.uptime == nil {
		s.uptime = uptime
	}
	if s.wait == 0 {
		s.wait = DefaultLockWait
	}
	return s
}

// Dir returns the directory of the state.
func (s *Store) Dir() string { return s.dir }

// Update runs fn in one read-write transaction, alone on the node. When Update returns nil, the changes survive the end of
// any process; those that make a promise survive a loss of power too (docs/design/0004-recovery.md). When Update returns
// an error they are discarded, except after a failed sync. The first Update on a node creates the state, unless it
// is for an existing one. An Update that
// finds the state lost or damaged rebuilds it and then runs fn again.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := s.makeDir(); err != nil {
		return err
	}
	var synced func() error
	err := s.locked(ctx, func() (err error) {
		synced, err = s.update(fn)
		if err == nil || s.rebuild == nil || !LostOrDamaged(err) {
			return err
		}
		if failed := s.recover(err); failed != nil {
			return errors.Join(err, failed)
		}
		synced, err = s.update(fn)
		return err
	})
	if synced != nil { // without the lock: one sync of the disk serves all who wait for one
		err = errors.Join(err, synced())
	}
	if errors.Is(err, ErrUnchanged) {
		return nil
	}
	return err
}

// update creates the state on a new node, and runs fn under the lock that the caller holds. It returns what makes the
// changes survive a loss of power; nil where nothing must, or all does.
func (s *Store) update(fn func(*Tx) error) (synced func() error, err error) {
	if err := s.ensure(); err != nil {
		return nil, err
	}
	return s.transact(fn)
}

// transact runs fn in one read-write transaction on the state that there is.
func (s *Store) transact(fn func(*Tx) error) (synced func() error, err error) {
	err = s.use(os.O_RDWR, func(ss *session) error {
		t, err := ss.within(true, fn)
		if err == nil {
			err = ss.commit(t)
		}
		if err != nil {
			return err
		}
		if ss.journal.unsynced || ss.journal.end >= framesAt+foldAt {
			if _, err = ss.fold(false); err == nil {
				return nil // all is on the disk
			}
		}
		if ss.journal.unsynced {
			return err // what an earlier commit promised is not
		}
		if t.promise {
			synced = ss.syncLater()
		}
		return nil
	})
	return synced, err
}

// locked runs fn alone on the node.
func (s *Store) locked(ctx context.Context, fn func() error) (err error) {
	l, err := s.lock(ctx, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return fn()
}

// existing is locked for a node that has a state. It makes no lock file on another one.
func (s *Store) existing(ctx context.Context, fn func() error) error {
	if initialized, err := s.Initialized(); err == nil && !initialized {
		return ErrNoState
	}
	return s.locked(ctx, fn)
}

// lock takes the lock file: writers in the order of their calls, readers as the kernel lets them.
func (s *Store) lock(ctx context.Context, how int) (*os.File, error) {
	path := filepath.Join(s.dir, lockName)
	if how == unix.LOCK_SH {
		return flock.LockAfter(ctx, path, how, s.wait, s.onWait)
	}
	return flock.LockInTurn(ctx, path, s.wait, s.onWait)
}
