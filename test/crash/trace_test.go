package crash_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// instant is when a command is killed: before one of its operations begins, or within the operation. A command that has
// fewer operations ends by itself.
type instant struct {
	done   int // operations before; never for no kill
	within bool
}

func (at instant) String() string {
	if at.within {
		return fmt.Sprintf("within operation %d", at.done)
	}
	return fmt.Sprintf("before operation %d", at.done)
}

// never kills no process.
const never = -1

// anyInstant is an instant of a command that has about so many operations. In some cases it ends by itself.
func anyInstant(r *rand.Rand, operations int) instant {
	return instant{r.IntN(operations + 1 + operations/4), r.IntN(2) == 0}
}

// trace runs a command to its end and returns its operations on files below dir, in order. The calling thread becomes
// the tracer of the command.
func trace(cmd *exec.Cmd, dir string) (ops []op, exit int, err error) {
	return traceUntil(cmd, dir, instant{done: never})
}

// traceUntil is trace, and kills the command at an instant. Of a command that was killed, exit is negative.
func traceUntil(cmd *exec.Cmd, dir string, at instant) (ops []op, exit int, err error) {
	return traceWith(cmd, tracer{dir: dir, at: at})
}

// traceWith runs a command below a tracer.
func traceWith(cmd *exec.Cmd, tr tracer) (ops []op, exit int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &unix.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	tr.pid, tr.entered = cmd.Process.Pid, map[int]*op{}
	var status unix.WaitStatus
	if _, err := unix.Wait4(tr.pid, &status, 0, nil); err != nil {
		return nil, 0, fmt.Errorf("wait for exec: %w", err)
	}
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(tr.pid, options); err != nil {
		return nil, 0, fmt.Errorf("trace: %w", err)
	}
	if err := unix.PtraceSyscall(tr.pid, 0); err != nil {
		return nil, 0, fmt.Errorf("trace: %w", err)
	}
	if exit, err = tr.run(); err != nil {
		_ = cmd.Process.Kill() // a traced process would wait for its tracer
		return nil, 0, err
	}
	_ = cmd.Wait() // the tracer has waited for the process; this waits for its output
	return tr.ops, exit, err
}

// refuser lets system calls fail.
type refuser interface {
	enter(tr *tracer, tid int, info syscallInfo) error
	leave(tid int) error
}

type tracer struct {
	pid     int
	dir     string
	at      instant
	refusal refuser     // nil for none
	strike  bool        // kill the command as soon as it goes on
	killed  bool        // what a thread does from now on cannot be read any more
	entered map[int]*op // the operation of each thread; nil for operations elsewhere
	ops     []op
}

// run traces all threads until the process ends.
func (tr *tracer) run() (exit int, err error) {
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-tr.pid, &status, unix.WALL, nil) // all threads are in the group of the process
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case status.Exited() || status.Signaled():
			if tid == tr.pid {
				return status.ExitStatus(), nil
			}
			continue
		}
		signal := 0
		switch {
		case status.StopSignal() == unix.SIGTRAP|0x80 && tr.killed:
		case status.StopSignal() == unix.SIGTRAP|0x80:
			if err := tr.syscall(tid); err != nil {
				return 0, err
			}
		case status.StopSignal() != unix.SIGTRAP && status.StopSignal() != unix.SIGSTOP:
			signal = int(status.StopSignal())
		}
		if err := unix.PtraceSyscall(tid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, fmt.Errorf("continue: %w", err)
		}
		if tr.strike && !tr.killed {
			tr.kill()
		}
	}
}

func (tr *tracer) kill() {
	tr.killed = true
	_ = unix.Kill(tr.pid, unix.SIGKILL) // the process may have ended
}

// syscallInfo is the kernel's struct ptrace_syscall_info.
type syscallInfo struct {
	op     uint8
	_      [3]byte
	_      uint32
	_      [2]uint64
	number uint64 // the result at the exit
	args   [6]uint64
}

const (
	getSyscallInfo = 0x420e
	atEntry        = 1
	atExit         = 2
)

// syscall is called when a thread enters or leaves a system call.
func (tr *tracer) syscall(tid int) error {
	var info syscallInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno == unix.ESRCH { // the thread ends with the process
		return nil
	}
	if errno != 0 {
		return fmt.Errorf("read a system call: %w", errno)
	}
	if tr.refusal != nil {
		if info.op == atEntry {
			return tr.refusal.enter(tr, tid, info)
		}
		return tr.refusal.leave(tid)
	}
	if info.op == atEntry {
		o, err := tr.decode(tid, info)
		tr.entered[tid] = o
		if o != nil && len(tr.ops) == tr.at.done {
			if tr.strike = true; !tr.at.within {
				tr.kill() // the kernel does not begin the call
			}
		}
		return err
	}
	o := tr.entered[tid]
	delete(tr.entered, tid)
	if info.op != atExit || o == nil || int64(info.number) < 0 {
		return nil
	}
	if o.kind == write && int64(info.number) != int64(len(o.data)) {
		return fmt.Errorf("short write to %s", o.path)
	}
	tr.ops = append(tr.ops, *o)
	return nil
}

// decode returns the operation of a system call on a file below the directory; nil for none.
func (tr *tracer) decode(tid int, info syscallInfo) (*op, error) {
	a := info.args
	var o op
	switch info.number {
	case unix.SYS_PWRITE64:
		o = op{kind: write, path: tr.fd(a[0]), off: int64(a[3]), size: int64(a[2])}
	case unix.SYS_WRITE:
		o = op{kind: write, path: tr.fd(a[0]), off: tr.position(a[0]), size: int64(a[2])}
	case unix.SYS_FTRUNCATE:
		o = op{kind: resize, path: tr.fd(a[0]), size: int64(a[1])}
	case unix.SYS_FALLOCATE:
		o = op{kind: grow, path: tr.fd(a[0]), size: int64(a[2] + a[3])}
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		o = op{kind: fsync, path: tr.fd(a[0])}
	case unix.SYS_OPENAT:
		if info, err := os.Stat(tr.text(tid, a[1])); a[2]&unix.O_TRUNC != 0 && err == nil && info.Size() > 0 {
			if !strings.HasSuffix(info.Name(), ".new") {
				return nil, fmt.Errorf("%s is truncated in place", info.Name())
			}
			o = op{kind: resize, path: tr.text(tid, a[1])} // what a killed verb has left
			break
		}
		if a[2]&unix.O_CREAT == 0 {
			return nil, nil
		}
		o = op{kind: create, path: tr.text(tid, a[1])}
	case unix.SYS_MKDIRAT:
		o = op{kind: mkdir, path: tr.text(tid, a[1])}
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		o = op{kind: rename, path: tr.text(tid, a[1]), to: tr.text(tid, a[3])}
	case unix.SYS_LINKAT:
		o = op{kind: link, path: tr.text(tid, a[1]), to: tr.text(tid, a[3])}
	case unix.SYS_UNLINKAT:
		o = op{kind: unlink, path: tr.text(tid, a[1])}
	default:
		return nil, nil
	}
	if o.path != tr.dir && !strings.HasPrefix(o.path, tr.dir+"/") {
		return nil, nil
	}
	if o.kind == write {
		var err error
		if o.data, err = tr.memory(tid, a[1], int(o.size)); err != nil {
			return nil, err
		}
	}
	return &o, nil
}

// fd returns the path of an open file.
func (tr *tracer) fd(n uint64) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tr.pid, int32(n))) // a closed file is not below the directory
	return path
}

func (tr *tracer) position(n uint64) int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", tr.pid, int32(n)))
	_, rest, _ := strings.Cut(string(data), "pos:")
	line, _, _ := strings.Cut(rest, "\n")
	pos, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return pos
}

func (tr *tracer) memory(tid int, at uint64, n int) ([]byte, error) {
	data := make([]byte, n)
	got, err := unix.PtracePeekData(tid, uintptr(at), data)
	if err != nil || got != n {
		return nil, fmt.Errorf("read %d bytes of the tracee: %d, %w", n, got, err)
	}
	return data, nil
}

// text returns the path that an argument points to.
func (tr *tracer) text(tid int, at uint64) string {
	var path []byte
	word := make([]byte, 8)
	for len(path) < unix.PathMax {
		if n, err := unix.PtracePeekData(tid, uintptr(at)+uintptr(len(path)), word); err != nil || n != len(word) {
			break
		}
		binary.NativeEndian.PutUint64(word, binary.NativeEndian.Uint64(word))
		if end := strings.IndexByte(string(word), 0); end >= 0 {
			return filepath.Clean(string(append(path, word[:end]...)))
		}
		path = append(path, word...)
	}
	return filepath.Clean(string(path))
}
