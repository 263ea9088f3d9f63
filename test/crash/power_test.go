package crash_test

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/test/cniexec"
)

var powerSeed = flag.Uint64("power-seed", 0, "replay the losses of power of this seed")

// stateDir is the directory of the state on the disk. The first verb creates the directory too.
const stateDir = "var/state"

// TestPowerFailsAtAnyInstant records the file operations of verbs, and simulates a power loss after each operation, which
// takes some of the data that was not synced. The state is then the state before or after the verb, and after it once
// the verb has answered.
func TestPowerFailsAtAnyInstant(t *testing.T) {
	seed := *powerSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	ways := waysToFail(rand.New(rand.NewPCG(seed, 0)))
	root := t.TempDir()
	dir := filepath.Join(root, stateDir)
	verbs, losses := 0, 0
	script(t, dir, func(what string, cmd *exec.Cmd) []byte {
		verbs++
		before, err := read(t.Context(), dir, nil)
		damaged := persistence.LostOrDamaged(err)
		if err != nil && !damaged {
			t.Fatalf("before %s: %v", what, err)
		}
		d, err := load(root)
		if err != nil {
			t.Fatal(err)
		}
		ops, out := traced(t, cmd, root)
		after, err := read(t.Context(), dir, nil)
		if err != nil {
			t.Fatalf("after %s: %v", what, err)
		}
		judged := map[[sha256.Size]byte]state{}
		for n := 0; ; n++ {
			for _, way := range ways {
				found, err := afterwards(t, d.fail(way), damaged, judged)
				switch is := found.String(); {
				case err != nil:
				case damaged && n < len(ops): // the file may still be the damaged one, in which all records can be read
				case is == after.String(), is == before.String() && n < len(ops):
				default:
					err = fmt.Errorf("found neither the state before nor the one after:\n%s", is)
				}
				if err != nil {
					t.Fatalf("seed %d: %s, after step %d of %d, %s: %v\nsteps: %v", seed, what, n, len(ops), way.name, err, ops)
				}
			}
			if n == len(ops) {
				break
			}
			if err := d.do(ops[n]); err != nil {
				t.Fatal(err)
			}
		}
		losses += len(judged)
		return out
	})
	t.Logf("%d verbs, %d ways to lose power, which left %d different disks", verbs, len(ways), losses)
}

// script runs verbs on a new node, on a growing file, on a file with free pages, on a compacted file, and on a damaged
// file.
func script(t *testing.T, dir string, execute func(what string, cmd *exec.Cmd) []byte) {
	t.Helper()
	run := func(what string, c cniexec.Call) []byte { return execute(what, c.Command(t.Context())) }
	had := map[int][]netip.Addr{}
	for pod := range 12 {
		had[pod] = addresses(run(fmt.Sprintf("ADD %d", pod), call(dir, "ADD", life{pod, 0}, nil)))
	}
	for pod := range 6 {
		run(fmt.Sprintf("DEL %d", pod), call(dir, "DEL", life{pod, 0}, had[pod]))
	}
	run("repeated DEL", call(dir, "DEL", life{0, 0}, had[0]))
	for pod := range 3 {
		if got := addresses(run(fmt.Sprintf("second ADD %d", pod), call(dir, "ADD", life{pod, 1}, nil))); !slices.Equal(got, had[pod]) {
			t.Fatalf("pod %d came back to %v, had %v", pod, got, had[pod])
		}
	}
	inflate(t, dir)
	execute("compact", compact(t.Context(), dir))
	run("ADD after it", call(dir, "ADD", life{13, 0}, nil))
	path := filepath.Join(dir, "limpet.db")
	data, err := os.ReadFile(path)
	if err == nil {
		clear(data[:4096])
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run("ADD that recovers", call(dir, "ADD", life{20, 0}, nil))
	run("DEL after it", call(dir, "DEL", life{20, 0}, nil))
}

// afterwards reads the state that is left; the result is cached for equal files. A file that was damaged before the verb
// may still be damaged; then the next verb rebuilds it.
func afterwards(t *testing.T, left survivors, damaged bool, judged map[[sha256.Size]byte]state) (state, error) {
	t.Helper()
	sum := left.sum()
	if s, again := judged[sum]; again {
		return s, nil
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := left.write(dir); err != nil {
		return state{}, err
	}
	rebuild := mend
	if !damaged {
		rebuild = nil
	}
	s, err := read(t.Context(), filepath.Join(dir, stateDir), rebuild)
	if err == nil && damaged && len(s.attached)+len(s.reserved) < 12 {
		err = fmt.Errorf("12 pods had addresses, and this is left:\n%s", s)
	}
	if err == nil {
		judged[sum] = s
	}
	return s, errors.Join(err, os.RemoveAll(dir))
}

// traced runs a process and returns its file operations below root, and its answer.
func traced(t *testing.T, cmd *exec.Cmd, root string) ([]op, []byte) {
	t.Helper()
	files := t.TempDir()
	in, out := filepath.Join(files, "in"), filepath.Join(files, "out")
	conf, err := io.ReadAll(cmd.Stdin)
	if err := errors.Join(err, os.WriteFile(in, conf, 0o600)); err != nil {
		t.Fatal(err)
	}
	stdin, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = stdin, stdout // files, so that only the tracer waits for the process
	ops, exit, err := trace(cmd, root)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := os.ReadFile(out)
	if err := errors.Join(err, stdin.Close(), stdout.Close()); err != nil || exit != 0 {
		t.Fatalf("%s: exit %d, %v: %s", cmd.Env, exit, err, answer)
	}
	return ops, answer
}
