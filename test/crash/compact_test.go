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

var compactions = flag.Int("compactions", 50, "compacting processes that are killed")

// TestCompactKilledAtAnyInstant kills processes that compact the state, among verbs that are killed too. The state is
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
	killed, late, done := 0, 0, 0
	most, enough := ofFold, times(*compactions, 15) // file operations of a compaction: more, the larger the state is
	for round := 0; killed < enough || late == 0 || done == 0; round++ {
		if round > 20*enough {
			t.Fatalf("of %d, %d were killed, %d of them after the journal stood on the new fold, and %d were done", round, killed, late, done)
		}
		fold := activeFold(dir)
		ended := make(chan compaction, 1)
		at := anyInstant(r, most)
		go func() { ended <- compactUntil(t, dir, at) }()
		attempts := attempt(t, dir, before, lives, r, ofVerb)
		c := <-ended
		most = max(most, c.operations)
		if c.done {
			done++
			most = c.operations
		} else if killed++; activeFold(dir) != fold {
			late++
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
	t.Logf("killed %d, %d of them after the journal stood on the new fold, done %d", killed, late, done)
}

// compaction is how far a compaction came.
type compaction struct {
	operations int
	done       bool
}

// compactUntil compacts the state, and kills the process at an instant, unless it has ended before.
func compactUntil(t *testing.T, dir string, at instant) compaction {
	var out bytes.Buffer
	cmd := compact(t.Context(), dir)
	cmd.Stdout, cmd.Stderr = &out, &out
	ops, exit, err := traceUntil(cmd, dir, at)
	if err != nil || exit > 0 && !bytes.Contains(out.Bytes(), []byte("no state was created yet")) {
		t.Errorf("compact, killed %s: exit %d, %v: %s", at, exit, err, out.Bytes())
	}
	return compaction{len(ops), exit == 0}
}

func compact(ctx context.Context, dir string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, plugin, "compact", "--data-dir", dir)
	cmd.Stdin = bytes.NewReader(nil)
	cmd.Env = []string{}
	return cmd
}

// foldSize returns the size of the fold on which the journal stands.
func foldSize(dir string) int64 {
	info, err := os.Stat(activeFold(dir))
	if err != nil {
		return 0
	}
	return info.Size()
}
