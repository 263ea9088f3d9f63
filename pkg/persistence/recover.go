package persistence

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
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
	suffix, err := s.backupSuffix()
	if err != nil {
		return err
	}
	if suffix != "" {
		left.BackupPath = s.path(databaseName + suffix)
	}
	records, err := s.rebuild(left)
	if err != nil {
		return fmt.Errorf("rebuild state: %w", err)
	}
	if err := s.backUp(suffix); err != nil {
		return err
	}
	if err := s.build(records, left); err != nil {
		return fmt.Errorf("rebuild state: %w", err)
	}
	if err := s.writeMarker(); err != nil {
		return err
	}
	_ = s.prune() // a file too many does no harm
	return nil
}

// backedUp are the files that recovery keeps.
var backedUp = [...]string{foldNames[0], foldNames[1], journalName, lastJournalName}

// backupSuffix returns what the names of the backups end in, with the time of the last change; "" when there is nothing to
// back up. Backups of a recovery that was killed are used again.
func (s *Store) backupSuffix() (string, error) {
	var last time.Time
	for _, name := range backedUp {
		info, err := os.Stat(s.path(name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("back up damaged state: %w", err)
		}
		if err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	if last.IsZero() {
		return "", nil
	}
	return damagedInfix + last.UTC().Format("20060102T150405.000000000Z"), nil
}

// backUp gives the damaged files second names, before new files take the first ones.
func (s *Store) backUp(suffix string) error {
	if suffix == "" {
		return nil
	}
	for _, name := range backedUp {
		err := os.Link(s.path(name), s.path(name+suffix))
		if err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("back up damaged state: %w", err)
		}
	}
	return nil
}

// backups returns the paths of the damaged files that are kept.
func (s *Store) backups() ([]string, error) {
	return filepath.Glob(s.path("limpet.*" + damagedInfix + "*"))
}

// prune removes all but the newest damaged states. What follows the infix sorts by time.
func (s *Store) prune() error {
	paths, err := s.backups()
	if err != nil {
		return err
	}
	of := map[string][]string{}
	for _, p := range paths {
		_, suffix, _ := strings.Cut(p, damagedInfix)
		of[suffix] = append(of[suffix], p)
	}
	suffixes := slices.Sorted(maps.Keys(of))
	for _, suffix := range suffixes[:max(0, len(suffixes)-keepDamaged)] {
		for _, p := range of[suffix] {
			if err := os.Remove(p); err != nil {
				return fmt.Errorf("remove the oldest damaged state: %w", err)
			}
		}
	}
	return nil
}
