package crash_test

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var compactions = flag.Int("compactions", 150, "compacting processes that are killed")

// TestCompactKilledAtAnyInstant kills processes that compact the file, among verbs that are killed too. The state is
// always present and sound: nothing here rebuilds a state.
func TestCompactKilledAtAnyInstant(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(t.TempDir(), "state")
	lives := make([]int, *pods)
	before, err := read(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	killed, done, shrunk := 0, 0, 0
	for round := 0; killed < *compactions; round++ {
		if round > 20*(*compactions) {
			t.Fatalf("only %d of %d were killed: the machine is too fast for this test", killed, round)
		}
		size := inflate(t, dir)
		ended := make(chan bool, 1)
		wait := time.Duration(r.IntN(12_000)+r.IntN(1+r.IntN(20_000))) * time.Microsecond
		go func() { ended <- runFor(t, compact(t.Context(), dir), wait) }()
		attempts := attempt(t, dir, before, lives, r, 1)
		if <-ended {
			done++
		} else {
			killed++
		}
		if size > 0 && fileSize(dir) < size {
			shrunk++
		}
		after, err := read(t.Context(), dir, nil)
		if err == nil {
			err = compare(attempts, before, after)
		}
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		before = after
	}
	t.Logf("killed %d, done %d, the file became smaller %d times", killed, done, shrunk)
	if shrunk <= done || done < killed/20 {
		t.Errorf("the kills are badly spread")
	}
}

// runFor runs a process, kills it after a while, and reports whether it had ended before.
func runFor(t *testing.T, cmd *exec.Cmd, wait time.Duration) bool {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Errorf("start: %v", err)
		return false
	}
	timer := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() }) // the process may have ended
	defer timer.Stop()
	_ = cmd.Wait() // ProcessState says how it ended
	if cmd.ProcessState.Exited() && !cmd.ProcessState.Success() && !bytes.Contains(out.Bytes(), []byte("no state was created yet")) {
		t.Errorf("compact: %s", out.Bytes())
	}
	return cmd.ProcessState.Success()
}

func compact(ctx context.Context, dir string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, plugin, "compact", "--data-dir", dir)
	cmd.Stdin = bytes.NewReader(nil)
	cmd.Env = []string{}
	return cmd
}

// inflate makes the file, if there is one, larger than a state ever needs, and returns the size. bbolt ignores the space
// behind the last page.
func inflate(t *testing.T, dir string) int64 {
	t.Helper()
	size := fileSize(dir)
	if size == 0 {
		return 0
	}
	const most = 3 << 20
	if err := os.Truncate(filepath.Join(dir, "limpet.db"), most); err != nil {
		t.Fatal(err)
	}
	return most
}

func fileSize(dir string) int64 {
	info, err := os.Stat(filepath.Join(dir, "limpet.db"))
	if err != nil {
		return 0
	}
	return info.Size()
}
