package crash_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/test/cniexec"
)

// refusal lets a system call fail: the n-th of those that concern files below the directory.
type refusal struct {
	nth   int
	errno unix.Errno
	seen  int
	what  string // the call that failed
	armed map[int]bool
}

// concerns reports whether a system call works on a file below the directory, and what it is called.
func (tr *tracer) concerns(tid int, info syscallInfo) string {
	a := info.args
	var path, name string
	switch info.number {
	case unix.SYS_OPENAT:
		path, name = tr.text(tid, a[1]), "open"
	case unix.SYS_NEWFSTATAT:
		path, name = tr.text(tid, a[1]), "stat"
	case unix.SYS_MKDIRAT:
		path, name = tr.text(tid, a[1]), "mkdir"
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		path, name = tr.text(tid, a[1]), "rename"
	case unix.SYS_LINKAT:
		path, name = tr.text(tid, a[1]), "link"
	case unix.SYS_UNLINKAT:
		path, name = tr.text(tid, a[1]), "unlink"
	case unix.SYS_MMAP:
		if int32(a[4]) < 0 {
			return ""
		}
		path, name = tr.fd(a[4]), "mmap"
	default:
		names := map[uint64]string{
			unix.SYS_READ: "read", unix.SYS_PREAD64: "pread", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync",
			unix.SYS_FTRUNCATE: "truncate", unix.SYS_FALLOCATE: "fallocate", unix.SYS_FSTAT: "fstat", unix.SYS_FLOCK: "flock",
		}
		if name = names[info.number]; name == "" {
			return ""
		}
		path = tr.fd(a[0])
	}
	if path != tr.dir && !strings.HasPrefix(path, tr.dir+"/") {
		return ""
	}
	return name + " of " + filepath.Base(path)
}

// enter replaces the call by one that the kernel does not know, if it is the n-th.
func (f *refusal) enter(tr *tracer, tid int, info syscallInfo) error {
	what := tr.concerns(tid, info)
	if what == "" {
		return nil
	}
	if f.seen++; f.seen != f.nth {
		return nil
	}
	f.what, f.armed[tid] = what, true
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	regs.Orig_rax = ^uint64(0)
	return unix.PtraceSetRegs(tid, &regs)
}

// leave makes the error the result of the call.
func (f *refusal) leave(tid int) error {
	if !f.armed[tid] {
		return nil
	}
	delete(f.armed, tid)
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	regs.Rax = uint64(-int64(f.errno))
	return unix.PtraceSetRegs(tid, &regs)
}

var refusals = flag.Int("refusals", 1, "errors with which each system call fails")

// errnos are those that a disk, its quota or the memory of a node give.
var errnos = []unix.Errno{unix.EIO, unix.ENOSPC, unix.EFBIG, unix.ENOMEM}

// refused is a verb on a state, each system call of which fails once.
type refused struct {
	prepare func(t *testing.T, dir string)
	verb    string
	life    life
	damaged bool // the state is, before the verb
}

func verbsToRefuse() map[string]refused {
	some := func(t *testing.T, dir string) {
		var had []netip.Addr
		for pod := range 4 {
			had = succeed(t, call(dir, "ADD", life{pod, 0}, nil))
		}
		succeed(t, call(dir, "DEL", life{3, 0}, had))
	}
	write := func(t *testing.T, path string, at int64, b byte) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			_, err = f.WriteAt([]byte{b}, at)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return map[string]refused{
		"the first ADD":       {prepare: func(*testing.T, string) {}, verb: "ADD", life: life{0, 0}},
		"an ADD":              {prepare: some, verb: "ADD", life: life{5, 0}},
		"an ADD that claims":  {prepare: some, verb: "ADD", life: life{3, 1}},
		"a DEL that reserves": {prepare: some, verb: "DEL", life: life{0, 0}},
		"an ADD that folds": {verb: "ADD", life: life{5, 0}, prepare: func(t *testing.T, dir string) {
			some(t, dir)
			write(t, filepath.Join(dir, "limpet.journal"), 4095, 1) // a sync had failed
		}},
		"an ADD that rebuilds": {verb: "ADD", life: life{5, 0}, damaged: true, prepare: func(t *testing.T, dir string) {
			some(t, dir)
			write(t, filepath.Join(dir, "limpet.journal"), 5, 'X')
		}},
	}
}

func succeed(t *testing.T, c cniexec.Call) []netip.Addr {
	t.Helper()
	a, err := c.Run(t.Context())
	if err != nil || a.Exit != 0 {
		t.Fatalf("%s: %v, %s", c.Verb, err, a.Stdout)
	}
	return addresses(a.Stdout)
}

// TestEachCallFails lets each system call of a verb on the files of the state fail once. The verb is done or not, one that
// answers has kept its promise or says that it has not, and the next verb works. With -short every third call fails.
func TestEachCallFails(t *testing.T) {
	for name, tc := range verbsToRefuse() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sound := filepath.Join(t.TempDir(), "state")
			tc.prepare(t, sound)
			before := found(t, copied(t, sound), tc.damaged)
			done, had := copied(t, sound), before.attached[tc.life.id()]
			succeed(t, call(done, tc.verb, tc.life, had))
			after := found(t, done, false)
			if before.String() == after.String() {
				t.Fatal("the verb changes nothing")
			}
			failed := map[string]int{}
			first := rand.N(len(errnos))
			for pass := range *refusals {
				from, step := somewhere()
				for n := 1 + from; ; n += step {
					dir, errno := copied(t, sound), errnos[(first+pass+n)%len(errnos)]
					f := &refusal{nth: n, errno: errno, armed: map[int]bool{}}
					answer := f.run(t, dir, call(dir, tc.verb, tc.life, had))
					if f.seen < n {
						break
					}
					is, why := judgeRefused(t, dir, tc, before, after, answer)
					if why != "" {
						t.Errorf("%s of call %d, %s: %s; exit %d, %s%s\n%s", errno, n, f.what, why, answer.exit, answer.stdout, answer.stderr, is)
					}
					if answer.exit != 0 {
						failed[f.what]++
					}
					if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Logf("the verb failed with %v", failed)
		})
	}
}

// judgeRefused returns the state after a verb of which a call failed, and what is wrong with it.
func judgeRefused(t *testing.T, dir string, tc refused, before, after state, answer refusedAnswer) (is state, why string) {
	t.Helper()
	is = found(t, dir, true)
	told := len(answer.stderr) > 0
	switch {
	case is.String() == after.String():
	case tc.damaged && strings.Contains(answer.stderr, `lost="`): // a file could not be read, and the verb says what that may cost
	case is.String() != before.String():
		return is, "neither the state before nor the one after"
	case answer.exit == 0 && tc.verb == "ADD":
		return is, "answered, and is not done"
	case answer.exit == 0 && !told:
		return is, "answered without a word, and is not done"
	}
	next, err := call(dir, "ADD", life{7, 0}, nil).Run(t.Context())
	if err != nil || next.Exit != 0 {
		return is, fmt.Sprintf("the next ADD: %v, %s", err, next.Stdout)
	}
	return found(t, dir, false), ""
}

// found reads the state, of which no address has two holders.
func found(t *testing.T, dir string, damaged bool) state {
	t.Helper()
	rebuild := mend
	if !damaged {
		rebuild = nil
	}
	s, err := read(t.Context(), dir, rebuild)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return s
}

// copied returns a copy of a state.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "state")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return to
}

// refusedAnswer is how a verb ended.
type refusedAnswer struct {
	exit           int
	stdout, stderr string
}

// run runs a verb with the n-th call refused.
func (f *refusal) run(t *testing.T, dir string, c cniexec.Call) refusedAnswer {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := c.Command(t.Context())
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	exit, err := traceRefused(cmd, dir, f)
	if err != nil {
		t.Fatal(err)
	}
	return refusedAnswer{exit, stdout.String(), stderr.String()}
}

// traceRefused runs a command to its end, with one refusal.
func traceRefused(cmd *exec.Cmd, dir string, f *refusal) (exit int, err error) {
	_, exit, err = traceWith(cmd, tracer{dir: dir, at: instant{done: never}, refusal: f})
	return exit, err
}
