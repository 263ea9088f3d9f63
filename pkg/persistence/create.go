package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// stat reports whether the database and the marker are there.
func (s *Store) stat() (found, marked bool, err error) {
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

// Initialized reports whether a state was ever made here. Where none was, only what is to be
// kept is a reason to make one.
func (s *Store) Initialized() (bool, error) {
	found, marked, err := s.stat()
	return found || marked, err
}

func (s *Store) lost() error {
	return fmt.Errorf("%s is missing although %s says that it was made: %w",
		filepath.Join(s.dir, databaseName), filepath.Join(s.dir, markerName), ErrLost)
}

// present fails where there is no state to read.
func (s *Store) present() error {
	switch found, marked, err := s.stat(); {
	case err != nil:
		return err
	case !found && marked:
		return s.lost()
	case !found:
		return ErrNoState
	}
	return nil
}

// ensure makes the database on a new node. It appears under its name complete, and
// the marker after it, so that no crash leaves something that looks lost.
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

// reserve takes the space for the records of a large node, so that its pods can end, and
// keep their addresses, on a disk that is full by then.
func reserve(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("reserve space: %w", err)
	}
	allocate(f, reservedSize)
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("reserve space: %w", err)
	}
	return nil
}

// allocate gives a file its space ahead of time. Where it cannot be had, or file systems
// know no such thing, a write says so when it comes to that.
func allocate(f *os.File, size int64) { _ = unix.Fallocate(int(f.Fd()), 0, 0, size) }

// makeDir makes the directory. It outlasts a power loss once the marker is there.
func (s *Store) makeDir() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	return nil
}

// syncAbove syncs the directories above, as far as makeDir can have made them: this verb's,
// or that of one that was killed before it could.
func (s *Store) syncAbove() error {
	dir := filepath.Dir(s.dir)
	err := syncDir(dir)
	for up := filepath.Dir(dir); up != dir; dir, up = up, filepath.Dir(up) {
		_ = syncDir(up) // it is the machine's own, mostly, and may be of a kind that cannot
	}
	return err
}

// create makes the first state of a node. It is empty, unless the node knows of pods
// from before: of another plugin's time, or of a state that was removed with its marker.
func (s *Store) create() error {
	if s.rebuild == nil {
		return s.build(reservation.Records{}, Salvaged{})
	}
	records, err := s.rebuild(Salvaged{})
	if err != nil {
		return fmt.Errorf("look for earlier pods: %w", err)
	}
	return s.build(records, Salvaged{})
}

// build makes a complete database beside the one that may be there, and puts it in its
// place.
func (s *Store) build(records reservation.Records, left Salvaged) error {
	temp := filepath.Join(s.dir, databaseName+".new")
	if err := removeLeftover(temp); err != nil {
		return err
	}
	db, err := bolt.Open(temp, 0o600, nil)
	if err != nil {
		return fmt.Errorf("create state file: %w", err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		if err := makeBuckets(tx); err != nil {
			return err
		}
		return left.restore(&Tx{tx: tx}, records)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("create state file: %w", err)
	}
	if err := reserve(temp); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(s.dir, databaseName)); err != nil {
		return fmt.Errorf("create state file: %w", err)
	}
	return syncDir(s.dir)
}

// mark makes the marker, last of all.
func (s *Store) mark() error {
	if err := s.syncAbove(); err != nil {
		return err
	}
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
