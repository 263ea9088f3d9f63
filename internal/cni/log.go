package cni

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// DefaultLogFile is where each verb writes its entry unless ipam.logFile says otherwise.
const DefaultLogFile = "/var/log/limpet/ipam.log"

var errLogFull = errors.New("log file is full and cannot be rotated")

// logFile is the file to which every verb on the node appends one line. A fault of the file
// never fails a verb or makes it wait: the file is opened without waiting for a reader,
// locked without waiting for a lock, and takes each line by one write.
type logFile struct {
	path string
	max  int64
}

// append adds a line. At the size limit the file is rotated, and one old file is kept. Where
// that fails, lines are dropped from twice the limit on.
func (l logFile) append(line []byte) error {
	f, size, err := l.open()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // the line is written; a failing close changes nothing
	if size > 0 && size+int64(len(line)) > l.max && l.rotate(f) == nil {
		fresh, freshSize, err := l.open()
		if err != nil {
			return err
		}
		defer func() { _ = fresh.Close() }() // as above
		f, size = fresh, freshSize
	}
	if size > 0 && size+int64(len(line)) > 2*l.max {
		return fmt.Errorf("append %s: %w", l.path, errLogFull)
	}
	_, err = f.Write(line)
	return err
}

// open returns the file and its size. It makes the file and its directory where needed.
func (l logFile) open() (*os.File, int64, error) {
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | unix.O_NONBLOCK
	f, err := os.OpenFile(l.path, flags, 0o640)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
			return nil, 0, fmt.Errorf("make log directory: %w", err)
		}
		f, err = os.OpenFile(l.path, flags, 0o640)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open log file: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("log file %s: %w", l.path, os.ErrInvalid) // a write to a pipe or device could block
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// rotate renames the file, unless another process has done so since it was opened. The lock
// stays with the renamed file.
func (l logFile) rotate(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock log file: %w", err)
	}
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(l.path)
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(mine, now) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Rename(l.path, l.path+".1")
}
