package persistence

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// View runs fn in one read-only transaction on the state as it is now. Verbs wait only while the files are opened, so fn may
// take its time. When the state must be rebuilt, View runs fn in a read-write transaction that writes nothing. It returns
// ErrNoState on a node without a state.
func (s *Store) View(ctx context.Context, fn func(*Tx) error) error {
	err := s.read(ctx, func(ss *session) error {
		_, err := ss.within(false, fn)
		return err
	})
	if s.rebuild == nil || !LostOrDamaged(err) {
		return err
	}
	return s.Update(ctx, func(tx *Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return ErrUnchanged
	})
}

// read opens the state under the lock, and runs fn without it. No verb writes the fold while it is open.
func (s *Store) read(ctx context.Context, fn func(*session) error) error {
	if initialized, err := s.Initialized(); err == nil && !initialized {
		return ErrNoState // without creating a lock file: the directory may belong to another program
	}
	l, err := s.lock(ctx, unix.LOCK_SH)
	unlock := func() error { return nil }
	if err == nil {
		unlock = l.Close
	} else if !errors.Is(err, unix.EROFS) { // no lock file can be created, and no program can write
		return err
	}
	opened := false
	err = s.use(os.O_RDONLY, func(ss *session) error {
		opened = true
		return errors.Join(unlock(), fn(ss))
	})
	if opened {
		return err
	}
	return errors.Join(err, unlock())
}
