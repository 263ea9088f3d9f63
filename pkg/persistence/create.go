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

// present fails when there is no state to read.
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

// reserve allocates disk space for the records of a large node, so that pods can end and keep their addresses when the
// disk is full.
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

// allocate allocates disk space for a file. Errors are ignored: without space a later write fails and says so.
func allocate(f *os.File, size int64) { _ = unix.Fallocate(int(f.Fd()), 0, 0, size) }

// syncAbove syncs the parent directories, which makeDir of this verb or of a killed one may have created.
func (s *Store) syncAbove() error {
	dir := filepath.Dir(s.dir)
	err := syncDir(dir)
	for up := filepath.Dir(dir); up != dir; dir, up = up, filepath.Dir(up) {
		_ = syncDir(up) // mostly a directory of the machine, and some file systems cannot sync
	}
	return err
}

// create creates the first state of a node. The state is empty, unless pods run already: with addresses of another
// plugin, or of a state that was removed together with its marker.
func (s *Store) create() error {
	if s.rebuild == nil {
		return s.build(reservation.Records{}, Salvaged{})
	}
	records, err := s.rebuild(Salvaged{})
	if err != nil {
		return fmt.Errorf("find running pods: %w", err)
	}
	return s.build(records, Salvaged{})
}

// build writes a complete database under a temporary name, and then renames it over the old one.
func (s *Store) build(records reservation.Records, left Salvaged) error {
	temp := filepath.Join(s.dir, databaseName+".new")
	if err := removeLeftover(temp); err != nil {
		return err
	}
	marked, err := s.markedGeneration()
	if err != nil {
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
		if err := left.restore(&Tx{tx: tx}, records); err != nil {
			return err
		}
		_, err := raiseGeneration(tx, max(left.generation(), marked)+1)
		return err
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

// mark writes the marker, as the last step.
func (s *Store) mark() error {
	if err := s.syncAbove(); err != nil {
		return err
	}
	path := filepath.Join(s.dir, markerName)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		_ = os.Remove(path) // a pipe or the like holds nothing, and the next step says why the marker cannot be written
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("write marker: %w", err)
	}
	_, err = f.WriteString(markerText)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write marker: %w", err)
	}
	return syncDir(s.dir)
}

// syncDir makes the names in a directory survive a power loss.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
