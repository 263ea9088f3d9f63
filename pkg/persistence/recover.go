package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// keepDamaged is the number of damaged files that are kept for the user to examine.
const keepDamaged = 5

const damagedInfix = ".damaged-"

// recover rebuilds a lost, damaged or outdated state, from what can be read of it and what the node knows. Only a complete file
// replaces the damaged one.
func (s *Store) recover(cause error) error {
	left, err := s.salvage()
	if err != nil {
		return err
	}
	left.Cause = cause
	if errors.Is(cause, ErrOutdated) {
		left.Complete = false
	}
	if left.BackupPath, err = s.backupName(); err != nil {
		return err
	}
	records, err := s.rebuild(left)
	if err != nil {
		return fmt.Errorf("rebuild state: %w", err)
	}
	if err := s.backUp(left.BackupPath); err != nil {
		return err
	}
	if err := s.build(records, left); err != nil {
		return fmt.Errorf("rebuild state: %w", err)
	}
	if err := s.mark(); err != nil {
		return err
	}
	_ = s.prune() // a file too many does no harm
	return nil
}

// backupName returns a free name for the backup of the damaged file, with the time of its last change; "" when there is
// no file.
func (s *Store) backupName() (string, error) {
	path := filepath.Join(s.dir, databaseName)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("back up damaged state: %w", err)
	}
	base := path + damagedInfix + info.ModTime().UTC().Format("20060102T150405.000000000Z")
	name := base
	for n := 2; ; n++ {
		old, err := os.Stat(name)
		if errors.Is(err, os.ErrNotExist) || (err == nil && os.SameFile(old, info)) { // the backup of a recovery that was killed
			return name, nil
		}
		if err != nil {
			return "", fmt.Errorf("back up damaged state: %w", err)
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
}

// backUp gives the damaged file a second name, before a new file takes the first one.
func (s *Store) backUp(name string) error {
	if name == "" {
		return nil
	}
	err := os.Link(filepath.Join(s.dir, databaseName), name)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("back up damaged state: %w", err)
	}
	return nil
}

// backups returns the paths of the damaged files that are kept.
func (s *Store) backups() ([]string, error) {
	return filepath.Glob(filepath.Join(s.dir, databaseName+damagedInfix+"*"))
}

// prune removes all but the newest damaged files. The names sort by time.
func (s *Store) prune() error {
	names, err := s.backups()
	if err != nil || len(names) <= keepDamaged {
		return err
	}
	slices.Sort(names)
	for _, n := range names[:len(names)-keepDamaged] {
		if err := os.Remove(n); err != nil {
			return fmt.Errorf("remove the oldest damaged state: %w", err)
		}
	}
	return nil
}
