// Package machine asks the Linux kernel about this machine: clocks and boot ID, network
// namespaces with their interfaces, and the neighbour table.
package machine

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// BootIDPath is the file with an ID that the kernel creates at each boot.
const BootIDPath = "/proc/sys/kernel/random/boot_id"

// errNoBootID is returned for a file without a boot ID.
var errNoBootID = errors.New("the file is empty")

// ReadClocks returns a function that reads the clocks: the wall clock by the function wall,
// and CLOCK_BOOTTIME with the boot ID from bootIDPath, which is read once. With an error the
// function names a boot of its own: times are then compared by the wall clock.
func ReadClocks(bootIDPath string, wall func() time.Time) (func() reservation.Moment, error) {
	boot, err := readShort(bootIDPath)
	id := strings.TrimSpace(string(boot))
	if err == nil && id == "" {
		err = errNoBootID
	}
	if err != nil {
		err = fmt.Errorf("read boot ID %s: %w", bootIDPath, err)
		id = fmt.Sprintf("unknown at %d", wall().UnixNano())
	}
	return func() reservation.Moment {
		var up unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) // fails for an invalid clock or address only
		m := reservation.Moment{Wall: wall(), BootID: id, Up: time.Duration(up.Nano())}
		m.Unsure = unsure(m.Up, unix.Adjtimex)
		return m
	}, err
}

// unsureFor is how long after a boot the wall clock may be wrong, as a machine without a battery has it, until something
// sets it right. On a machine where nothing does, the wall clock counts after that.
const unsureFor = 10 * time.Minute

// unsure reports whether the machine was booted lately, and the kernel was not told since that the wall clock is right. A
// container may not ask.
func unsure(up time.Duration, adjtimex func(*unix.Timex) (state int, err error)) bool {
	var t unix.Timex
	if up >= unsureFor {
		return false
	}
	_, err := adjtimex(&t)
	return err != nil || t.Status&unix.STA_UNSYNC != 0
}

// readShort reads the beginning of a file. os.ReadFile would make ten system calls more, to find out whether the file can
// be polled.
func readShort(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }() // the file was only read
	data := make([]byte, 128)
	n, err := unix.Read(fd, data)
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return data[:n], nil
}

// StatNetNS returns device and inode of the network namespace that is bound to a path. It returns false only where nothing
// is at the path. A path that cannot be looked at may lead to a namespace: then the inode is 0.
func StatNetNS(path string) (reservation.NetNS, bool) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return reservation.NetNS{Path: path}, !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
	}
	return reservation.NetNS{Path: path, Dev: st.Dev, Inode: st.Ino}, true
}

// Orphaned returns a function that reports whether the parent of this process is gone. A parent that ended before the
// process began is seen by its end of the pipe.
func Orphaned(parent int, out *os.File) func() bool {
	return func() bool { return os.Getppid() != parent || ReaderGone(out) }
}

// ReaderGone reports whether a file is a pipe or a socket that nothing reads any more. A file
// of another kind always has a reader.
func ReaderGone(f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	_ = conn.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(polled, 0)
		gone = err == nil && n == 1 && polled[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return gone
}
