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

// Lock takes the flock how (unix.LOCK_EX or LOCK_SH) on path within wait. The
// returned file holds it until it is closed. A shared lock can be had on a read-only file
// system too, if the file is there.
func Lock(ctx context.Context, path string, how int, wait time.Duration) (*os.File, error) {
	return LockAfter(ctx, path, how, wait, nil)
}

// LockAfter is Lock that calls waiting, unless it is nil, before it waits for others.
func LockAfter(ctx context.Context, path string, how int, wait time.Duration, waiting func()) (*os.File, error) {
	access := os.O_RDWR
	if how == unix.LOCK_SH {
		access = os.O_RDONLY
	}
	f, err := os.OpenFile(path, access|os.O_CREATE|unix.O_CLOEXEC, 0o600)
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

// lockBlocking waits in the kernel's queue. A flock cannot be interrupted, so
// when the bound passes the waiting goroutine is left behind and gives the lock
// back as soon as it gets it.
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
			_ = f.Close() // nobody waits any more; closing drops the lock
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

func flockRetry(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
