package flock_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

// waiterVar makes this program a process that waits for the lock of a file.
const waiterVar = "LIMPET_TEST_WAIT_FOR"

func TestMain(m *testing.M) {
	if path := os.Getenv(waiterVar); path != "" {
		f, err := flock.LockInTurn(context.Background(), path, time.Minute, nil)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_ = f.Close()
		return
	}
	os.Exit(m.Run())
}

// joined waits until a number of waiters have joined the queue since the file was made, and the last one has let go of the
// counter: a test that stops it stops it in its place, not while it joins.
func joined(t *testing.T, path string, n uint64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		counter := unix.Flock_t{Type: unix.F_RDLCK, Len: 1}
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &counter); err != nil {
			t.Fatal(err)
		}
		if len(data) >= 8 && binary.BigEndian.Uint64(data) >= n && counter.Type == unix.F_UNLCK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the counter of the queue has not reached %d: %x", n, data)
		}
	}
}

// queue records in which order waiters get a lock.
type queue struct {
	t     *testing.T
	path  string
	wg    sync.WaitGroup
	mu    sync.Mutex
	order []int
}

// wait starts a waiter, and returns once it is in the queue.
func (q *queue) wait(id int) {
	q.t.Helper()
	q.wg.Go(func() {
		f, err := flock.LockInTurn(q.t.Context(), q.path, time.Minute, nil)
		if err != nil {
			q.t.Error(err)
			return
		}
		q.mu.Lock()
		q.order = append(q.order, id)
		q.mu.Unlock()
		_ = f.Close()
	})
	joined(q.t, q.path, uint64(id))
}

// process starts a process that waits.
func (q *queue) process(id int) *exec.Cmd {
	q.t.Helper()
	cmd := exec.CommandContext(q.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), waiterVar+"="+q.path)
	if err := cmd.Start(); err != nil {
		q.t.Fatal(err)
	}
	joined(q.t, q.path, uint64(id))
	return cmd
}

// TestLockInTurn lets many wait: each gets the lock in the order of the calls, and a newcomer overtakes none.
func TestLockInTurn(t *testing.T) {
	flock.SetImpatience(t, time.Hour)
	q := &queue{t: t, path: filepath.Join(t.TempDir(), "lock")}
	first := lock(t, q.path, unix.LOCK_EX)
	const n = 50
	var want []int
	for id := 1; id <= n; id++ {
		q.wait(id)
		want = append(want, id)
	}
	_ = first.Close()
	q.wg.Wait()
	if !slices.Equal(q.order, want) {
		t.Errorf("got the lock in the order %v", q.order)
	}
}

// TestAKilledWaiterStopsNone kills processes at the head, in the middle and at the end of the queue.
func TestAKilledWaiterStopsNone(t *testing.T) {
	q := &queue{t: t, path: filepath.Join(t.TempDir(), "lock")}
	first := lock(t, q.path, unix.LOCK_EX)
	killed := []*exec.Cmd{q.process(1)}
	q.wait(2)
	killed = append(killed, q.process(3))
	q.wait(4)
	killed = append(killed, q.process(5))
	for _, cmd := range killed {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	_ = first.Close()
	q.wg.Wait()
	slices.Sort(q.order) // both wait for the flock when those before them are gone
	if !slices.Equal(q.order, []int{2, 4}) {
		t.Errorf("%v got the lock", q.order)
	}
	_ = lock(t, q.path, unix.LOCK_EX).Close()
}

// TestAStoppedWaiterStopsNone stops the process at the head of the queue. Others take the lock out of turn, and so does a
// newcomer. The lock is released once the process has stopped: before, it could still get the lock, and stop with it.
func TestAStoppedWaiterStopsNone(t *testing.T) {
	q := &queue{t: t, path: filepath.Join(t.TempDir(), "lock")}
	first := lock(t, q.path, unix.LOCK_EX)
	stopped := q.process(1)
	stop(t, stopped.Process.Pid)
	q.wait(2)
	_ = first.Close()
	q.wg.Wait()
	q.wait(3)
	q.wg.Wait()
	if !slices.Equal(q.order, []int{2, 3}) {
		t.Errorf("%v got the lock", q.order)
	}
	if err := stopped.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := stopped.Wait(); err != nil {
		t.Errorf("the stopped one: %v", err)
	}
}

// stop stops a child, and returns once all its threads have stopped.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			t.Fatalf("stop process %d: status %#x, error %v", pid, status, err)
		}
		return
	}
}

// TestAWaiterThatIsStoppedWhileItJoins holds the counter of the queue, as a process does that is stopped between two of
// its own system calls. Others wait for the flock without a turn, and one that has given up leaves no place behind.
func TestAWaiterThatIsStoppedWhileItJoins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := lock(t, path, unix.LOCK_EX)
	counter, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	held := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	if err := unix.FcntlFlock(counter.Fd(), unix.F_OFD_SETLK, &held); err != nil {
		t.Fatal(err)
	}
	if _, err := flock.LockInTurn(t.Context(), path, 10*time.Millisecond, nil); !errors.Is(err, flock.ErrLocked) {
		t.Errorf("got %v, want %v", err, flock.ErrLocked)
	}
	got, err := flock.LockInTurn(t.Context(), path, time.Minute, func() { _ = first.Close() })
	if err != nil {
		t.Fatal(err)
	}
	_ = counter.Close()
	go func() { _ = got.Close() }()
	last, err := flock.LockInTurn(t.Context(), path, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = last.Close()
}

// TestLockInTurnIsBounded gives up a wait at the head of the queue and one behind it. The lock is free afterwards.
func TestLockInTurnIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := lock(t, path, unix.LOCK_EX)
	for range 2 {
		if _, err := flock.LockInTurn(t.Context(), path, 10*time.Millisecond, nil); !errors.Is(err, flock.ErrLocked) {
			t.Errorf("got %v, want %v", err, flock.ErrLocked)
		}
	}
	_ = first.Close()
	f, err := flock.LockInTurn(t.Context(), path, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}
