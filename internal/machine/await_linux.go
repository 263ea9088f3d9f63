package machine

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The pauses after which AwaitRemoval looks again although nothing was told: an interface may go and its namespace stay,
// the caller of the process may end, and a file may be out of reach of inotify.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = time.Second
)

// AwaitRemoval waits until over returns true, and at most for a time. It asks after the removal of the network namespace
// at a path or of one of the files, and at growing intervals.
//
// Runtimes bind a namespace to a file, unmount the file, and remove it. No notification tells of the unmount, because
// the namespace is not a file of the directory's file system; inotify on the directory tells of the removal. A path such
// as /proc/4711/ns/net names no such file: there the end of the process is told, by its pidfd.
func AwaitRemoval(path string, files []string, atMost time.Duration, over func() bool) {
	deadline := time.Now().Add(atMost) //nolint:forbidigo // it bounds a wait for the kernel
	fds := watch(path, files)
	defer func() {
		for _, p := range fds {
			_ = unix.Close(int(p.Fd)) // nothing is left to be read
		}
	}()
	for look := firstLook; !over(); {
		left := time.Until(deadline) //nolint:forbidigo // as above
		if left <= 0 {
			return
		}
		n, _ := unix.Poll(fds, int(min(look, left+time.Millisecond).Milliseconds())) // a signal ends the call: look again
		if n == 0 {
			look = min(2*look, lastLook)
		}
		fds = drain(fds)
	}
}

// watch returns the descriptors that become readable when the namespace or a file goes. What cannot be watched is left
// out.
func watch(path string, files []string) (fds []unix.PollFd) {
	if pid, ok := processOf(path); ok {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fds
	}
	_, _ = unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_DELETE|unix.IN_MOVED_FROM) // else the growing intervals serve
	for _, f := range files {
		_, _ = unix.InotifyAddWatch(fd, f, unix.IN_ATTRIB|unix.IN_DELETE_SELF) // as above
	}
	return append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
}

// processOf returns the process of a path in /proc.
func processOf(path string) (pid int, ok bool) {
	rest, ok := strings.CutPrefix(path, "/proc/")
	if !ok {
		return 0, false
	}
	id, _, _ := strings.Cut(rest, "/")
	pid, err := strconv.Atoi(id)
	return pid, err == nil
}

// drain reads what inotify has told, and drops the descriptor of a process that has ended.
func drain(fds []unix.PollFd) []unix.PollFd {
	var buffer [4096]byte
	kept := fds[:0]
	for _, p := range fds {
		if p.Revents != 0 {
			if n, err := unix.Read(int(p.Fd), buffer[:]); n <= 0 && err != unix.EAGAIN && err != unix.EINTR {
				_ = unix.Close(int(p.Fd)) // a pidfd cannot be read
				continue
			}
		}
		kept = append(kept, p)
	}
	return kept
}
