package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// keepDamaged is how many damaged files are kept for a person to look at.
const keepDamaged = 5

const damagedInfix = ".damaged-"

// recover makes a lost or damaged state again, from what can be read of it and what the
// node knows. The file that is there gives way only to a complete one.
func (s *Store) recover(cause error) error {
	left, err := s.salvage()
	if err != nil {
		return err
	}
	left.Cause = cause
	if left.BackupPath, err = s.asideName(); err != nil {
		return err
	}
	records, err := s.rebuild(left)
	if err != nil {
		return fmt.Errorf("rebuild state: %w", err)
	}
	if err := s.setAside(left.BackupPath); err != nil {
		return err
	}
	if err := s.build(records, left); err != nil {
		return fmt.Errorf("rebuild state: %w", err)
	}
	if err := s.mark(); err != nil {
		return err
	}
	_ = s.prune() // one file more than wanted harms nobody
	return nil
}

// asideName returns a free name to keep the damaged file under, by the time of its last
// change; "" when there is no file.
func (s *Store) asideName() (string, error) {
	path := filepath.Join(s.dir, databaseName)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("set damaged state aside: %w", err)
	}
	base := path + damagedInfix + info.ModTime().UTC().Format("20060102T150405.000000000Z")
	name := base
	for n := 2; ; n++ {
		old, err := os.Stat(name)
		if errors.Is(err, os.ErrNotExist) || (err == nil && os.SameFile(old, info)) { // a recovery that was cut short
			return name, nil
		}
		if err != nil {
			return "", fmt.Errorf("set damaged state aside: %w", err)
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
}

// setAside gives the damaged file a second name, under which it outlasts the new one.
func (s *Store) setAside(name string) error {
	if name == "" {
		return nil
	}
	err := os.Link(filepath.Join(s.dir, databaseName), name)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("set damaged state aside: %w", err)
	}
	return nil
}

// damaged returns the files that are kept.
func (s *Store) damaged() ([]string, error) {
	return filepath.Glob(filepath.Join(s.dir, databaseName+damagedInfix+"*"))
}

// prune removes all but the newest damaged files, whose names go by time.
func (s *Store) prune() error {
	names, err := s.damaged()
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
