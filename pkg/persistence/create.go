package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// makeDir creates the directory. It survives a power loss once the marker is written.
func (s *Store) makeDir() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	return nil
}

// exists reports whether there is a file; the marker must be a regular one.
func (s *Store) exists(name string) (bool, error) {
	info, err := os.Stat(s.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("look for state: %w", err)
	}
	return err == nil && (name != markerName || info.Mode().IsRegular()), nil
}

// Initialized reports whether a state was ever created in the directory.
func (s *Store) Initialized() (bool, error) {
	found, err := s.exists(databaseName)
	marked, err2 := s.exists(markerName)
	return found || marked, errors.Join(err, err2)
}

// lost returns ErrLost with the names of the files.
func (s *Store) lost() error {
	return fmt.Errorf("%s is missing although other files say that the state was created: %w", s.path(journalName), ErrLost)
}

// ensure creates the state on a new node. A fold gets its name first, then the journals, and the marker comes last, so that a
// crash in between does not look like a lost state.
func (s *Store) ensure() error {
	begun, err := s.exists(journalName)
	marked, err2 := s.exists(markerName)
	used, err3 := s.exists(lastJournalName)
	switch err := errors.Join(err, err2, err3); {
	case err != nil || begun && marked:
		return err
	case begun:
	case marked || used:
		return s.lost()
	case !s.begins:
		return ErrNoState
	default:
		if err := s.create(); err != nil {
			return err
		}
	}
	return s.writeMarker()
}

// begin puts a journal on a fold in the place of the present one, which is damaged or missing, and folds: so that the other fold
// and the last journal know the same. Until the journal has its name nothing that a recovery has read is replaced.
func (s *Store) begin(h header) error {
	temp := s.path(journalName + newSuffix)
	if err := removeLeftover(temp); err != nil {
		return err
	}
	if err := writeHeader(temp, h); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(temp, s.path(journalName)), syncDir(s.dir)); err != nil {
		return err
	}
	_ = s.use(os.O_RDWR, func(ss *session) error { // after an error the next fold does the same
		_, err := ss.fold(false)
		return err
	})
	return nil
}

// openExisting opens a file for bbolt, which would take an empty one for new.
func openExisting(path string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := flock.Open(path, flag&^os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() == 0) {
		err = fmt.Errorf("%s of %d bytes: %w", info.Mode(), info.Size(), ErrDamaged)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// reserve allocates disk space for the records of a large node, so that pods can end and keep their addresses when the
// disk is full.
func reserve(path string) error {
	f, err := flock.Open(path, os.O_RDWR, 0)
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

// build writes a complete fold under a temporary name, gives it the name of the fold that was not read, and begins a journal on
// it.
func (s *Store) build(records reservation.Records, left Salvaged) error {
	fold := 1 - left.from
	path := s.path(foldNames[fold])
	temp := path + newSuffix
	if err := removeLeftover(temp); err != nil {
		return err
	}
	m, err := s.readMark()
	if err != nil {
		return err
	}
	t := newTx(nil)
	if err := left.restore(t, records); err != nil {
		return fmt.Errorf("create state: %w", err)
	}
	h := header{fold: fold, generation: max(left.generation, m.generation, s.firstGeneration()) + 1}
	used, _, err := t.layers.write(temp)
	if err == nil {
		err = reserve(temp)
	}
	if err == nil {
		err = h.sum(temp, used)
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = s.begin(h)
	}
	if err != nil {
		return fmt.Errorf("create state: %w", err)
	}
	s.writeMark(m.next(h.generation, true, s.uptime()))
	return nil
}

// firstGeneration is the time of the last change in the directory, in nanoseconds: a state of another history, made before,
// has a lower generation.
func (s *Store) firstGeneration() uint64 {
	info, err := os.Stat(s.dir)
	if err != nil {
		return 0
	}
	return uint64(max(info.ModTime().UnixNano(), 1))
}

// writeMarker writes the marker, as the last step.
func (s *Store) writeMarker() error {
	if err := s.syncAbove(); err != nil {
		return err
	}
	path := s.path(markerName)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		_ = os.Remove(path) // a pipe or the like holds nothing, and the next step says why the marker cannot be written
	}
	f, err := flock.Open(path, os.O_WRONLY|os.O_CREATE, 0o600)
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
	d, err := flock.Open(dir, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeLeftover removes the temporary file of a verb that was killed.
func removeLeftover(temp string) error {
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove temporary file: %w", err)
	}
	return nil
}
