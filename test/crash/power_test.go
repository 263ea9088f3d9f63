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
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
)

var powerSeed = flag.Uint64("power-seed", 0, "replay the losses of power of this seed")

// stateDir is the directory of the state on the disk. The first verb creates the directory too.
const stateDir = "var/state"

// TestPowerFailsAtAnyInstant records the file operations of verbs, and simulates a power loss after each operation, which
// takes some of the data that was not synced, also by verbs before. The state is then as after one of the verbs since the
// last promise, or as after the verb. Once a verb has answered that promises, it is as after that verb.
func TestPowerFailsAtAnyInstant(t *testing.T) {
	seed := *powerSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	p := power{root: t.TempDir(), ways: waysToFail(rand.New(rand.NewPCG(seed, 0))), seed: seed}
	p.onDisk(t)
	script(t, &p)
	t.Logf("%d verbs, %d ways to lose power, which left %d different disks", p.verbs, len(p.ways), p.losses)
}

// power is a node that loses its power at each instant.
type power struct {
	root    string
	seed    uint64
	ways    []loss
	disk    *disk
	may     []string // the states since the last promise: all that a loss may leave
	damaged bool     // a verb must recover

	verbs, losses int
}

func (p *power) dir() string { return filepath.Join(p.root, stateDir) }

// onDisk syncs all files.
func (p *power) onDisk(t *testing.T) {
	t.Helper()
	is, err := read(t.Context(), p.dir(), nil)
	p.damaged = persistence.LostOrDamaged(err)
	if err != nil && !p.damaged {
		t.Fatal(err)
	}
	p.may = []string{is.String()}
	if p.disk, err = load(p.root); err != nil {
		t.Fatal(err)
	}
}

// run runs a process, and loses the power after each of its steps.
func (p *power) run(t *testing.T, what string, promises bool, cmd *exec.Cmd) []byte {
	t.Helper()
	p.verbs++
	ops, out := traced(t, cmd, p.root)
	after, err := read(t.Context(), p.dir(), nil)
	if err != nil {
		t.Fatalf("after %s: %v", what, err)
	}
	may := append(p.may, after.String())
	judged := map[[sha256.Size]byte]state{}
	for n := 0; n <= len(ops); n++ {
		if n == len(ops) && promises {
			may = may[len(may)-1:]
		}
		for _, way := range p.ways {
			found, err := p.afterwards(t, way, judged)
			switch {
			case err != nil:
			case p.damaged && n < len(ops): // the files may still be the damaged ones, in which all records can be read
			case !slices.Contains(may, found.String()):
				err = fmt.Errorf("found the state of no verb since the last promise:\n%s\nwant one of:\n%s", found, strings.Join(may, "\n\n"))
			}
			if err != nil {
				t.Fatalf("seed %d: %s, after step %d of %d, %s: %v\nsteps: %v", p.seed, what, n, len(ops), way.name, err, ops)
			}
		}
		if n < len(ops) {
			if err := p.disk.do(ops[n]); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.may, p.damaged, p.losses = may, false, p.losses+len(judged)
	return out
}

// script runs verbs on a new node, on a growing state, with full journals, on a compacted state, and with a damaged fold.
func script(t *testing.T, p *power) {
	t.Helper()
	dir := p.dir()
	had := map[int][]netip.Addr{}
	add := func(what string, l life, promises bool) []netip.Addr {
		return addresses(p.run(t, what, promises, call(dir, "ADD", l, nil).Command(t.Context())))
	}
	del := func(what string, l life, promises bool) {
		p.run(t, what, promises, call(dir, "DEL", l, had[l.pod]).Command(t.Context()))
	}
	for pod := range 12 {
		had[pod] = add(fmt.Sprintf("ADD %d", pod), life{pod, 0}, false)
	}
	for pod := range 6 {
		del(fmt.Sprintf("DEL %d", pod), life{pod, 0}, true)
	}
	del("repeated DEL", life{0, 0}, false)
	for pod := range 3 {
		if got := add(fmt.Sprintf("second ADD %d", pod), life{pod, 1}, true); !slices.Equal(got, had[pod]) {
			t.Fatalf("pod %d came back to %v, had %v", pod, got, had[pod])
		}
	}
	had[requires] = add("ADD that requires", life{requires, 0}, true)
	for pod := 12; pod < 16; pod++ { // the folds take turns
		fillJournal(t, dir)
		p.onDisk(t)
		fold := activeFold(dir)
		had[pod] = add(fmt.Sprintf("ADD %d with a full journal", pod), life{pod, 0}, false)
		if activeFold(dir) == fold {
			t.Fatalf("ADD %d has not folded", pod)
		}
		del(fmt.Sprintf("DEL %d after it", pod), life{pod, 0}, true)
	}
	p.run(t, "compact", false, compact(t.Context(), dir))
	had[16] = add("ADD after it", life{16, 0}, false)
	data, err := os.ReadFile(activeFold(dir))
	if err == nil {
		clear(data[:4096])
		err = os.WriteFile(activeFold(dir), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.onDisk(t)
	if !p.damaged {
		t.Fatal("the fold is not damaged")
	}
	del("DEL that recovers", life{16, 0}, true)
	add("ADD after it", life{17, 0}, false)
}

// afterwards reads the state that is left after a loss of power and a new start of the node; the result is cached for equal
// files. What was damaged before the verb may still be damaged; then the next verb rebuilds it.
func (p *power) afterwards(t *testing.T, way loss, judged map[[sha256.Size]byte]state) (state, error) {
	t.Helper()
	left := p.disk.fail(way)
	sum := left.sum()
	if s, again := judged[sum]; again {
		return s, nil
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := left.write(dir); err != nil {
		return state{}, err
	}
	o := persistence.Options{Dir: filepath.Join(dir, stateDir), Uptime: func() time.Duration { return time.Second }}
	if p.damaged {
		o.Rebuild = mend
	}
	s, err := readWith(t.Context(), o)
	if err == nil && p.damaged && len(s.attached)+len(s.reserved) < 12 {
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
