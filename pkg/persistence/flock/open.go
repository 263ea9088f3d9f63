package flock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a regular file for blocking reads and writes. os.OpenFile would start the poller of Go's runtime, which costs
// a short process some ten system calls. A pipe in place of the file is opened at once, too.
func Open(path string, flag int, mode os.FileMode) (*os.File, error) {
	for {
		fd, err := unix.Open(path, flag|unix.O_CLOEXEC|unix.O_NONBLOCK, uint32(mode.Perm()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil {
			if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0); err != nil {
				_ = unix.Close(fd) // the error before counts
			}
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}
