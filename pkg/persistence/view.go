package persistence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// View runs fn in one read-only transaction. When the file must be rebuilt, or is older than this version, View runs fn
// in a read-write transaction that writes nothing. It returns ErrNoState on a node without a state.
func (s *Store) View(ctx context.Context, fn func(*Tx) error) error {
	if initialized, err := s.Initialized(); err == nil && !initialized {
		return ErrNoState // without creating a lock file: the directory may belong to another program
	}
	err := s.locked(ctx, unix.LOCK_SH, func() error { return s.view(fn) })
	if !errors.Is(err, errOlder) && (s.rebuild == nil || !LostOrDamaged(err)) {
		return err
	}
	return s.Update(ctx, func(tx *Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return ErrUnchanged
	})
}

// view runs fn under the lock that the caller holds.
func (s *Store) view(fn func(*Tx) error) error {
	if err := s.present(); err != nil {
		return err
	}
	marked, err := s.markedGeneration() // before the database is opened, which is never behind the marker
	if err != nil {
		return err
	}
	return s.withDB(&bolt.Options{Timeout: s.wait, ReadOnly: true}, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			if err := errors.Join(checkSchema(tx), checkBuckets(tx, buckets, errOlder)); err != nil {
				return err
			}
			if err := checkGeneration(tx, marked); err != nil {
				return err
			}
			return fn(&Tx{tx: tx})
		})
	})
}

// copiedToMemory is the largest state file whose copy is in memory. The file of a node with some thousand pods is
// smaller.
const copiedToMemory = 16 << 20

// Snapshot runs fn in one read-only transaction on a copy of the state. Verbs wait only while the file is copied, so fn
// may take its time, unless it is told that it holds the lock: then there is no room for a copy. Nothing is rebuilt.
// Buckets that an older version did not have can be missing.
func (s *Store) Snapshot(ctx context.Context, fn func(tx *Tx, locked bool) error) error {
	return s.onCopy(ctx, nil, func(tx *bolt.Tx, marked uint64, copied *os.File) error {
		err := checkSchema(tx)
		if err == nil {
			err = errors.Join(checkBuckets(tx, firstBuckets, ErrDamaged), checkGeneration(tx, marked))
		}
		if err != nil {
			return err
		}
		return fn(&Tx{tx: tx}, copied == nil)
	})
}

// onCopy copies the database under the lock, and runs fn on the copy without the lock. The function before runs under the
// lock, unless it is nil. A database that cannot be copied is read under the lock, and copied is nil then. The marker
// names the generation.
func (s *Store) onCopy(ctx context.Context, before func() error, fn func(tx *bolt.Tx, marked uint64, copied *os.File) error) error {
	if initialized, err := s.Initialized(); err == nil && !initialized {
		return ErrNoState // without creating a lock file: the directory may belong to another program
	}
	o := &bolt.Options{Timeout: s.wait, ReadOnly: true}
	var copied *os.File
	var marked uint64
	read := func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error { return fn(tx, marked, copied) })
	}
	err := s.locked(ctx, unix.LOCK_SH, func() (err error) {
		if err := s.present(); err != nil {
			return err
		}
		if before != nil {
			if err := before(); err != nil {
				return err
			}
		}
		if marked, err = s.markedGeneration(); err != nil {
			return err
		}
		if copied = s.copyDatabase(); copied == nil {
			return s.withDB(o, read)
		}
		return nil
	})
	if copied == nil {
		return err
	}
	o.OpenFile = func(string, int, os.FileMode) (*os.File, error) {
		_, err := check(copied, true)
		return copied, err
	}
	return errors.Join(err, s.openAs(o, func(*os.File) error { return nil }, read))
}

// copyDatabase copies the database into a file without a name, while the caller holds the lock. The space is free again
// when the file is closed. It returns nil when there is no copy: reading the database itself then says why.
func (s *Store) copyDatabase() *os.File {
	from, err := os.OpenFile(filepath.Join(s.dir, databaseName), os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for a writer
	if err != nil {
		return nil
	}
	defer func() { _ = from.Close() }() // the file was only read
	info, err := from.Stat()
	if err != nil || unix.Flock(int(from.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return nil // a process without the lock file writes: on a read-only file system no process can create the lock file
	}
	if info.Size() > copiedToMemory { // in memory the copy could be more than the limit of the agent
		return s.copyToDisk(from, info.Size())
	}
	fd, err := unix.MemfdCreate(databaseName, unix.MFD_CLOEXEC)
	return filled(fd, err, from)
}

// copyToDisk copies a file beside the database, where there is room for two copies. File systems that share blocks copy
// at once.
func (s *Store) copyToDisk(from *os.File, size int64) *os.File {
	fd, err := unix.Open(s.dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil
	}
	if unix.IoctlFileClone(fd, int(from.Fd())) == nil {
		return os.NewFile(uintptr(fd), databaseName)
	}
	var disk unix.Statfs_t
	if err = unix.Fstatfs(fd, &disk); err == nil && int64(disk.Bavail)*disk.Bsize < 2*size {
		err = unix.ENOSPC
	}
	if err != nil {
		_ = unix.Close(fd) // nothing was written
		return nil
	}
	return filled(fd, nil, from)
}

// filled copies a file into the new file of a descriptor, unless the error says that there is none. It returns nil when
// the copy is not complete.
func filled(fd int, err error, from *os.File) *os.File {
	if err != nil {
		return nil
	}
	to := os.NewFile(uintptr(fd), databaseName)
	if _, err = from.Seek(0, 0); err == nil {
		err = sendAll(to, from)
	}
	if err != nil {
		_ = to.Close() // a copy that is not complete
		return nil
	}
	return to
}

// sendAll copies a file in the kernel. io.Copy would do the same, and link 25 kB of code for other kinds of files.
func sendAll(to, from *os.File) error {
	for {
		n, err := unix.Sendfile(int(to.Fd()), int(from.Fd()), nil, copiedToMemory)
		if n == 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// firstBuckets are those that each version has made.
var firstBuckets = [][]byte{bucketAttachments, bucketOwners, bucketReservations, bucketHeld}

// checkBuckets fails for a file that lacks one of some buckets.
func checkBuckets(tx *bolt.Tx, names [][]byte, why error) error {
	for _, name := range names {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("no bucket %s: %w", name, why)
		}
	}
	return nil
}
