package plugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// The most system calls of a verb, apart from those of Go's runtime. Two more than were counted: the runtime reads the limits
// of its cgroup at any time.
const (
	mostCallsOfAdd     = 60
	mostCallsOfDel     = 53
	mostCallsToReserve = 56
	mostCallsToClaim   = 66
	// moreCalls are those by which a verb reads a state with many records: a part of it is compared with its checksum.
	moreCalls = 6
)

// calls of Go's runtime depend on the machine and on what else runs there.
var ofRuntime = []uint64{
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_NANOSLEEP, unix.SYS_FUTEX, unix.SYS_CLONE, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK,
	unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_GETTID, unix.SYS_GETPID, unix.SYS_TGKILL, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_EPOLL_PWAIT, unix.SYS_PRCTL, unix.SYS_CLOCK_GETTIME,
}

// An ADD and a DEL, on a node where another pod runs, need few system calls beyond those of a process that answers VERSION.
// Those of a pod that asks for nothing never wait for the disk, nor open more where addresses are lent and guests are. A DEL that
// reserves and an ADD that claims wait once.
func TestVerbsMakeFewSystemCalls(t *testing.T) {
	notEmulated(t)
	dir := t.TempDir()
	c := conf(dir, "1.1.0")
	retains := c["runtimeConfig"]
	c["runtimeConfig"] = map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{"kubernetes.io/config.source": "api"}}
	plain := write(t, c)
	first := (call{verb: "ADD", container: "first", netns: "/run/netns/first", args: pod("first", "u1"), conf: c}).run(t)
	if first.exit != 0 {
		t.Fatal(first.stdout)
	}
	c["runtimeConfig"] = retains
	claims := write(t, c)
	reserves := func() string { // with the addresses of the ADD: without them the DEL undoes it
		attached, _ := read(t, dir)
		return write(t, withPrevious(c, attached["second"].Addresses))
	}
	started, more := traced(t, "VERSION", plain), 0
	for _, verb := range []struct {
		what, name, stdin string
		most, syncs       int
	}{
		{"everyday ADD", "ADD", plain, mostCallsOfAdd, 0},
		{"everyday DEL", "DEL", plain, mostCallsOfDel, 0},
		{"everyday ADD beside loans", "ADD", plain, mostCallsOfAdd, 0},
		{"everyday DEL beside loans", "DEL", plain, mostCallsOfDel, 0},
		{"first ADD of a pod that asks", "ADD", claims, mostCallsOfAdd, 0},
		{"DEL that reserves", "DEL", "", mostCallsToReserve, 1},
		{"ADD that claims", "ADD", claims, mostCallsToClaim, 1},
	} {
		if verb.stdin == "" {
			verb.stdin = reserves()
		}
		if verb.what == "everyday ADD beside loans" {
			manyLoans(t, dir)
			more = moreCalls
		}
		made := traced(t, verb.name, verb.stdin)
		if n := len(made) - len(started); n > verb.most+more {
			t.Errorf("%s: %d system calls, more than %d: %v", verb.what, n, verb.most+more, made)
		} else {
			t.Logf("%s: %d system calls", verb.what, n)
		}
		syncs := len(slices.DeleteFunc(made, func(nr uint64) bool { return !slices.Contains(syncing, nr) }))
		if syncs != verb.syncs {
			t.Errorf("%s: %d syncs, want %d", verb.what, syncs, verb.syncs)
		}
	}
}

// manyLoans stores half of the addresses of the node as lent, and as many guests.
func manyLoans(t *testing.T, dir string) {
	t.Helper()
	state := persistence.New(persistence.Options{Dir: dir})
	err := state.Update(t.Context(), func(tx *persistence.Tx) (err error) {
		for i := range byte(120) {
			for name, r := range map[string]reservation.Reservation{
				"lent":  {Lent: 1, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 2, 100 + i})}},
				"guest": {Guest: 1, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 9, 100 + i})}},
			} {
				r.Owner = reservation.Owner{Network: "net", Namespace: "ns", Pod: fmt.Sprint(name, i), IfName: "eth0"}
				r.Mode, r.Retain, r.Deadline = reservation.Follow, reservation.Forever, reservation.Deadline{For: reservation.Forever}
				err = errors.Join(err, tx.PutReservation(r))
			}
		}
		return err
	})
	if err := errors.Join(err, state.Fold(t.Context())); err != nil { // else a verb reads a longer journal
		t.Fatal(err)
	}
}

// syncing are the calls that wait for the disk.
var syncing = []uint64{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC, unix.SYS_SYNCFS, unix.SYS_MSYNC, unix.SYS_SYNC_FILE_RANGE}

// write writes a network configuration into a file.
func write(t *testing.T, conf any) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "stdin")
	data, err := json.Marshal(conf)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// traced runs a verb, and returns the numbers of its system calls.
func traced(t *testing.T, verb, stdin string) (made []uint64) {
	t.Helper()
	runtime.LockOSThread() // ptrace wants one thread
	defer runtime.UnlockOSThread()
	pid := startTraced(t, verb, stdin)
	options := unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	for first := true; ; first = false {
		var status unix.WaitStatus
		thread, err := unix.Wait4(-pid, &status, unix.WALL, nil) // all threads are in the group of the process
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if first {
			if err := unix.PtraceSetOptions(pid, options); err != nil {
				t.Fatal(err)
			}
		}
		deliver := 0
		switch {
		case (status.Exited() || status.Signaled()) && thread == pid:
			if status.ExitStatus() != 0 {
				t.Fatalf("%s ended with %#x", verb, status)
			}
			return made
		case !status.Stopped():
			continue
		case status.StopSignal() == unix.SIGTRAP|0x80: // of PTRACE_O_TRACESYSGOOD
			if nr, enters := enteredCall(thread); enters && !slices.Contains(ofRuntime, nr) {
				made = append(made, nr)
			}
		case status.StopSignal() != unix.SIGTRAP && status.StopSignal() != unix.SIGSTOP:
			deliver = int(status.StopSignal())
		}
		_ = unix.PtraceSyscall(thread, deliver) // the thread may have been killed meanwhile
	}
}

// startTraced starts a verb, which stops at its first instruction.
func startTraced(t *testing.T, verb, stdin string) (pid int) {
	t.Helper()
	in, err := os.Open(stdin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	p, err := os.StartProcess(binary, []string{binary}, &os.ProcAttr{
		Env: []string{
			"CNI_COMMAND=" + verb, "CNI_CONTAINERID=second", "CNI_IFNAME=eth0", "CNI_NETNS=/run/netns/second", "CNI_ARGS=" + pod("second", "u2"), "CNI_PATH=" + cniPath,
			"GODEBUG=containermaxprocs=0,updatemaxprocs=0", // else Go reads the limit of a cgroup, and each second again
		},
		Files: []*os.File{in, out, out},
		Sys:   &unix.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	if err != nil {
		t.Fatal(fmt.Errorf("start %s: %w", verb, err))
	}
	return p.Pid
}

// enteredCall returns the number of the system call that a stopped thread enters.
func enteredCall(thread int) (nr uint64, enters bool) {
	var info struct { // struct ptrace_syscall_info of linux/ptrace.h
		op    uint8
		_     [3]uint8
		arch  uint32
		ip    uint64
		sp    uint64
		nr    uint64
		other [7]uint64
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(thread), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	return info.nr, errno == 0 && info.op == unix.PTRACE_SYSCALL_INFO_ENTRY
}
