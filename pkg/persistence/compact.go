package persistence

import (
	"context"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Compact rewrites the file without free pages, alone on the node, and returns the sizes. The new file is not smaller
// than reservedSize. A crash leaves the old file or the new one. The file stays unchanged when it would not become
// smaller, and when it is damaged.
func (s *Store) Compact(ctx context.Context) (before, after int64, err error) {
	if initialized, err := s.Initialized(); err == nil && !initialized {
		return 0, 0, ErrNoState
	}
	err = s.locked(ctx, unix.LOCK_EX, func() error {
		before, after, err = s.compact()
		return err
	})
	return before, after, err
}

// compact rewrites the file under the lock that the caller holds.
func (s *Store) compact() (before, after int64, err error) {
	if err := s.present(); err != nil {
		return 0, 0, err
	}
	// The open database keeps out even processes that do not share the lock file, until the new file has the name.
	// Then withDB of such a process notices the replacement.
	err = s.withDB(&bolt.Options{Timeout: s.wait, ReadOnly: true}, func(db *bolt.DB) error {
		before, after, err = s.replace(db)
		return err
	})
	return before, after, err
}

// replace replaces the database by a copy without free pages, if the copy is smaller.
func (s *Store) replace(db *bolt.DB) (before, after int64, err error) {
	temp := db.Path() + ".new"
	if err := removeLeftover(temp); err != nil {
		return 0, 0, err
	}
	if err := copyTo(temp, db); err != nil {
		return 0, 0, errors.Join(err, removeLeftover(temp))
	}
	before, after, err = sizes(db.Path(), temp)
	if err != nil || after >= before {
		return before, before, errors.Join(err, removeLeftover(temp))
	}
	if err := os.Rename(temp, db.Path()); err != nil {
		return before, before, errors.Join(fmt.Errorf("compact state: %w", err), removeLeftover(temp))
	}
	return before, after, syncDir(s.dir)
}

// copyTo writes a copy of the database without free pages, and syncs the copy.
func copyTo(temp string, from *bolt.DB) error {
	if err := errors.Join(from.View(checkSchema), checkPages(from.Path())); err != nil {
		return err
	}
	to, err := bolt.Open(temp, 0o600, nil)
	if err != nil {
		return fmt.Errorf("compact state: %w", err)
	}
	err = bolt.Compact(to, from, 0) // in one transaction, whose commit syncs
	if err := errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("compact state: %w", err)
	}
	if err := checkPages(temp); err != nil {
		return fmt.Errorf("compact state: %w", err)
	}
	return reserve(temp)
}

// sizes returns the sizes of two files.
func sizes(a, b string) (sizeA, sizeB int64, err error) {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if err := errors.Join(errA, errB); err != nil {
		return 0, 0, fmt.Errorf("compare sizes: %w", err)
	}
	return infoA.Size(), infoB.Size(), nil
}

// removeLeftover removes the temporary file of a verb that was killed.
func removeLeftover(temp string) error {
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove temporary file: %w", err)
	}
	return nil
}
