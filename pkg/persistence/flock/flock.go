// Package flock takes file locks with a bounded wait in the kernel queue.
package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked is returned when the lock was not free within the bound.
var ErrLocked = errors.New("locked by others")

// Lock takes a lock on a file within the time wait; how is unix.LOCK_EX or LOCK_SH. Closing the returned file releases
// the lock. Lock creates the file when it is missing; a shared lock works on a read-only file system too, if the file
// exists.
func Lock(ctx context.Context, path string, how int, wait time.Duration) (*os.File, error) {
	return LockAfter(ctx, path, how, wait, nil)
}

// LockAfter is Lock with a function that is called before a wait; nil for none.
func LockAfter(ctx context.Context, path string, how int, wait time.Duration, waiting func()) (*os.File, error) {
	access := os.O_RDWR
	if how == unix.LOCK_SH {
		access = os.O_RDONLY
	}
	f, err := os.OpenFile(path, access|os.O_CREATE|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600) // a pipe would wait for a writer
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	if waiting != nil {
		waiting()
	}
	return lockBlocking(ctx, f, how, wait)
}

// lockBlocking waits in the queue of the kernel. A flock cannot be interrupted: when the time is up, the waiting
// goroutine stays behind and releases the lock as soon as it gets the lock.
func lockBlocking(ctx context.Context, f *os.File, how int, wait time.Duration) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	got := make(chan error)
	fd := int(f.Fd())
	go func() {
		err := flockRetry(fd, how)
		select {
		case got <- err:
		case <-ctx.Done():
			_ = f.Close() // the caller has given up; closing releases the lock
		}
	}()
	select {
	case err := <-got:
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		return f, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("lock %s for %s: %w", f.Name(), wait, ErrLocked)
	}
}

// flockRetry takes a lock, and tries again when a signal interrupts the call.
func flockRetry(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
