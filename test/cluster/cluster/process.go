package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// processes starts the long-lived programs of a cluster and remembers them in
// files, so that a later process can end them.
type processes struct {
	dir string // a file for each process: its PID and when it started
	log string
}

// spawn starts a program in a network namespace, on its own and for good.
func (p processes) spawn(name, inNetNS string, cmd *exec.Cmd) error {
	log, err := os.OpenFile(filepath.Join(p.log, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", name, err)
	}
	defer log.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := closeOnExec(); err != nil {
		return err
	}
	if err := inNamespace(inNetNS, cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go cmd.Wait() //nolint:errcheck // only to bury it while this process lives; its end is seen elsewhere
	return p.remember(name, cmd.Process.Pid)
}

func (p processes) remember(name string, pid int) error {
	born, err := startTime(pid)
	if err != nil {
		return p.ended(name)
	}
	return os.WriteFile(filepath.Join(p.dir, name), fmt.Appendf(nil, "%d %s", pid, born), 0o644)
}

// ended says that a program ended by itself, with the last lines that it logged: the log
// goes when what was started is taken down again.
func (p processes) ended(name string) error {
	const lines = 10
	data, err := os.ReadFile(filepath.Join(p.log, name+".log"))
	if err != nil {
		return fmt.Errorf("%s ended, and its log cannot be read: %w", name, err)
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return fmt.Errorf("%s ended by itself; the end of its log:\n%s", name, strings.Join(all[max(0, len(all)-lines):], "\n"))
}

// pid returns the PID of a remembered process that is still the same one; 0 when
// there is none.
func (p processes) pid(name string) int {
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		return 0
	}
	text, born, _ := strings.Cut(string(data), " ")
	pid, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	if now, err := startTime(pid); err != nil || now != born {
		return 0
	}
	return pid
}

// end ends a process with the signal, and with SIGKILL after the grace.
func (p processes) end(name string, sig unix.Signal, grace time.Duration) error {
	pid := p.pid(name)
	if pid == 0 {
		return forget(filepath.Join(p.dir, name))
	}
	if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end %s: %w", name, err)
	}
	for deadline := time.Now().Add(grace); p.pid(name) != 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended just now
			deadline = deadline.Add(time.Minute)
		}
	}
	return forget(filepath.Join(p.dir, name))
}

// names lists the remembered processes.
func (p processes) names() []string {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// startTime tells a process from a later one with the same PID.
func startTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	return parseStat(string(data))
}

// parseStat reads the start from proc_pid_stat(5). The main thread of a living process
// is a zombie, too, for a moment: while another thread of it becomes another program.
func parseStat(stat string) (string, error) {
	const state, threads, start = 0, 17, 19 // counted from behind the name, which may hold anything
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= start || fields[state] == "X" {
		return "", os.ErrProcessDone
	}
	if n, err := strconv.Atoi(fields[threads]); fields[state] == "Z" && (err != nil || n <= 1) {
		return "", os.ErrProcessDone
	}
	return fields[start], nil
}

// inNamespace runs fn on a thread in a named network namespace. What fn starts is
// in it too.
func inNamespace(name string, fn func() error) error {
	if name == "" {
		return fn()
	}
	return inFreshThread(func() error {
		ns, err := netns.GetFromName(name)
		if err != nil {
			return fmt.Errorf("open network namespace %s: %w", name, err)
		}
		defer ns.Close()
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", name, err)
		}
		return fn()
	})
}

// forget removes what may be gone already.
func forget(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove left-over: %w", err)
	}
	return nil
}

// inFreshThread runs fn on a thread that is thrown away afterwards.
func inFreshThread(fn func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			result <- fn()
			return
		}
		// The main thread does not end, and would stay in the namespace. It is kept
		// busy until another one has done the work.
		defer runtime.UnlockOSThread()
		result <- inFreshThread(fn)
	}()
	return <-result
}
