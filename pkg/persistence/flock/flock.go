// Package flock takes file locks with a bounded wait in the kernel queue.
package flock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	f, err := Open(path, access|os.O_CREATE, 0o600)
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

// The kernel wakes all waiters of a flock at once, and the first of them that runs gets the lock: of 200 waiters some wait
// many times as long as others. So waiters queue by numbers, and each wakes the next one only.
//
// A waiter holds a lock on a byte of the lock file whose offset is its number, and waits for the byte before. The queue
// decides the order only; the flock decides who has the lock. So the kernel removes a waiter that is killed, and a program
// that knows no queue takes part as before. Byte locks (OFD) and flocks of a file do not touch each other.
const (
	counterAt   = 0       // of eight bytes that hold the last number; the byte lock on the first one guards them
	firstNumber = 1 << 10 // the offset of number 0
	maxNumber   = 1 << 60
)

// impatience is how often a waiter tries to take the lock out of turn. A waiter that is stopped or frozen would stop all
// others. A test of the order makes it longer than any pause of a busy machine.
var impatience = 500 * time.Millisecond

// LockInTurn is LockAfter for an exclusive lock, in the order of the calls.
func LockInTurn(ctx context.Context, path string, wait time.Duration, waiting func()) (*os.File, error) {
	f, err := Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if !queued(int(f.Fd())) {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
	}
	if waiting != nil {
		waiting()
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	t, err := takeTurn(ctx, path)
	if err != nil { // a file system without byte locks, a full one, or a waiter that is stopped while it joins
		return lockBlocking(ctx, f, unix.LOCK_EX, wait)
	}
	early := t.await(ctx, int(f.Fd()))
	if early {
		t.leave()
		return f, nil
	}
	got, err := lockBlocking(ctx, f, unix.LOCK_EX, wait)
	t.leave() // now the next one waits for the flock
	return got, err
}

// turn is a place in the queue. It has a descriptor of its own: an abandoned wait for a byte keeps the descriptor.
type turn struct {
	file   *os.File
	fd     int
	number int64
	left   chan struct{} // closed when the place is empty
}

// errJoining is returned when another waiter holds the counter for longer than its impatience.
var errJoining = errors.New("another waiter is stopped while it joins")

// takeTurn joins the queue. Its wait for the counter is bounded too: the waiter that holds the counter can be stopped.
func takeTurn(ctx context.Context, path string) (*turn, error) {
	f, err := Open(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	t := &turn{file: f, fd: int(f.Fd()), left: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, impatience)
	defer cancel()
	joined := make(chan error)
	go func() {
		err := t.join()
		select {
		case joined <- err:
		case <-ctx.Done():
			_ = f.Close() // the caller has given up; closing empties the place
		}
	}()
	select {
	case err = <-joined:
	case <-ctx.Done():
		return nil, fmt.Errorf("queue for %s: %w", path, errJoining)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("queue for %s: %w", path, err), f.Close())
	}
	return t, nil
}

// join takes the next number and locks its byte.
func (t *turn) join() error {
	fd := t.fd
	if err := lockByte(fd, counterAt, unix.F_WRLCK, true); err != nil {
		return err
	}
	var last [8]byte
	_, err := t.file.ReadAt(last[:], counterAt)
	if err != nil && !errors.Is(err, io.EOF) {
		return err // closing the file releases the byte
	}
	t.number = int64(binary.BigEndian.Uint64(last[:])+1) & (maxNumber - 1)
	binary.BigEndian.PutUint64(last[:], uint64(t.number))
	if _, err := t.file.WriteAt(last[:], counterAt); err != nil {
		return err
	}
	err = lockByte(fd, firstNumber+t.number, unix.F_WRLCK, false)
	return errors.Join(err, lockByte(fd, counterAt, unix.F_UNLCK, false))
}

// await waits until the place before is empty, and now and then tries to take the flock out of turn. It reports whether it
// has the flock.
func (t *turn) await(ctx context.Context, flock int) (early bool) {
	free := make(chan struct{})
	go func() {
		_ = lockByte(t.fd, firstNumber+t.number-1, unix.F_RDLCK, true) // after an error the flock decides
		close(free)
		<-t.left
		_ = t.file.Close() // not before: another file would get the descriptor
	}()
	ticker := time.NewTicker(impatience)
	defer ticker.Stop()
	for {
		select {
		case <-free:
			return false
		case <-ctx.Done():
			return false
		case <-ticker.C:
			if unix.Flock(flock, unix.LOCK_EX|unix.LOCK_NB) == nil {
				return true
			}
		}
	}
}

// leave empties the place.
func (t *turn) leave() {
	_ = lockByte(t.fd, firstNumber+t.number, unix.F_UNLCK, false) // closing does the same
	close(t.left)
}

// queued reports whether others wait. An error means that they cannot.
func queued(fd int) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: firstNumber}
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l) == nil && l.Type != unix.F_UNLCK
}

// lockByte locks or unlocks one byte.
func lockByte(fd int, at int64, kind int16, wait bool) error {
	command := unix.F_OFD_SETLK
	if wait {
		command = unix.F_OFD_SETLKW
	}
	for {
		l := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: 1}
		if err := unix.FcntlFlock(uintptr(fd), command, &l); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
