package persistence

import (
	"errors"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// copiedSize is the largest state file that an audit copies, so that verbs need not wait for the rest of the audit. The
// file of a node with some thousand pods is smaller.
const copiedSize = 16 << 20

// copyToMemory copies the database into a file without a name, while the caller holds the lock. The memory is free again
// when the file is closed. It returns nil when there is no copy: the audit of the file itself then says why.
func (s *Store) copyToMemory() *os.File {
	from, err := os.OpenFile(filepath.Join(s.dir, databaseName), os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for a writer
	if err != nil {
		return nil
	}
	defer func() { _ = from.Close() }() // the file was only read
	if unix.Flock(int(from.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return nil // a process without the lock file writes: on a read-only file system no process can create the lock file
	}
	fd, err := unix.MemfdCreate(databaseName, unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	to := os.NewFile(uintptr(fd), databaseName)
	if err := sendAll(to, from); err != nil {
		_ = to.Close() // a copy that is not complete
		return nil
	}
	return to
}

// sendAll copies a file in the kernel. io.Copy would do the same, and link 25 kB of code for other kinds of files.
func sendAll(to, from *os.File) error {
	for {
		n, err := unix.Sendfile(int(to.Fd()), int(from.Fd()), nil, copiedSize)
		if n == 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// auditDB audits the database, or a copy of it unless the copy is nil. The copy is closed. The marker
// names the generation.
func (s *Store) auditDB(r *Report, copied *os.File, marked uint64) error {
	// Without PreLoadFreelist bbolt's check would read the free list in a goroutine in which no fault is caught.
	o := &bolt.Options{Timeout: s.wait, ReadOnly: true, PreLoadFreelist: true}
	look := func(db *bolt.DB) error { return db.View(func(tx *bolt.Tx) error { return r.audit(tx, marked) }) }
	if copied == nil {
		return s.withDB(o, look)
	}
	o.OpenFile = func(string, int, os.FileMode) (*os.File, error) { return checked(copied) }
	return s.openAs(o, func(*os.File) error { return nil }, look)
}
