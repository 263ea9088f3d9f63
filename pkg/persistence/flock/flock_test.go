package flock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

func lock(t *testing.T, path string, how int) *os.File {
	t.Helper()
	f, err := flock.Lock(t.Context(), path, how, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLockExcludes(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second int
		want          error
	}{
		"a writer excludes writers":     {unix.LOCK_EX, unix.LOCK_EX, flock.ErrLocked},
		"a writer excludes readers":     {unix.LOCK_EX, unix.LOCK_SH, flock.ErrLocked},
		"a reader excludes writers":     {unix.LOCK_SH, unix.LOCK_EX, flock.ErrLocked},
		"readers do not exclude others": {unix.LOCK_SH, unix.LOCK_SH, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			holder := lock(t, path, tc.first)
			defer func() { _ = holder.Close() }()
			f, err := flock.Lock(t.Context(), path, tc.second, 10*time.Millisecond)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if err == nil {
				_ = f.Close()
			}
		})
	}
}

// TestLockAfterWaits releases the lock when the second caller begins to wait.
func TestLockAfterWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, waits := lock(t, path, unix.LOCK_EX), 0
	second, err := flock.LockAfter(t.Context(), path, unix.LOCK_EX, time.Minute, func() { waits++; _ = first.Close() })
	if err != nil || waits != 1 {
		t.Fatalf("%v after %d waits", err, waits)
	}
	_ = second.Close()
	third, err := flock.LockAfter(t.Context(), path, unix.LOCK_EX, time.Minute, func() { waits++ })
	if err != nil || waits != 1 {
		t.Fatalf("a free lock: %v after %d waits", err, waits)
	}
	_ = third.Close()
}

// TestCancelledWaitLeavesNoLock cancels a wait: the lock is free for others after the holder's release.
func TestCancelledWaitLeavesNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := lock(t, path, unix.LOCK_EX)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := flock.LockAfter(ctx, path, unix.LOCK_EX, time.Minute, cancel); !errors.Is(err, flock.ErrLocked) {
		t.Errorf("got %v, want %v", err, flock.ErrLocked)
	}
	_ = first.Close()
	_ = lock(t, path, unix.LOCK_EX).Close()
}
