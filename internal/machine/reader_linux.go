package machine

import (
	"os"

	"golang.org/x/sys/unix"
)

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
