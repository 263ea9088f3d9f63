package cniplugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// DefaultLogFile is where each verb leaves its line unless ipam.logFile says
	// otherwise.
	DefaultLogFile = "/var/log/limpet/ipam.log"
	// DefaultLogMaxBytes is the size at which the log file becomes the old one.
	DefaultLogMaxBytes = 10 << 20

	noLog = "none"
)

var errLogFull = errors.New("log file is full and cannot be rotated")

// logFile is the file that every verb on the node appends its line to. Nothing that is
// wrong with it may fail a verb or make it wait: it is opened without waiting for a
// reader, locked without waiting for a lock, and takes whole lines by one write each.
type logFile struct {
	path string
	max  int64
}

// append adds a line. At the size limit the file becomes the old one, of which one is
// kept; where that cannot be done, lines are dropped from twice the limit on.
func (l logFile) append(line []byte) error {
	f, size, err := l.open()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // a line that was written is there for all that log readers know
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

// open returns the file, made with its directory where there is none, and its size.
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
		err = fmt.Errorf("log file %s: %w", l.path, os.ErrInvalid) // a write to it could wait
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// rotate gives the file its old name, unless somebody else has done so since it was
// opened. The lock goes with the file that it is on.
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
