// Package machine asks the Linux kernel about this machine: clocks and boot ID, network
// namespaces with their interfaces, and the neighbour table.
package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/ipam"
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

// UseOf asks the kernel of this network namespace whether it uses an address: with a route to the address alone, or with
// a neighbour that has answered for it lately. An answer that is an error means no route, a route that refuses packets,
// no neighbour, or a kernel before 5.0, which does not answer the question for one neighbour.
func UseOf(addr netip.Addr) (ipam.Use, error) {
	n, err := dial(unix.NETLINK_ROUTE)
	if err != nil {
		return ipam.Unused, fmt.Errorf("ask the kernel for %s: %w", addr, err)
	}
	defer n.close()
	alone, link := n.route(addr)
	switch {
	case alone:
		return ipam.Routed, nil
	case link != nil && n.reached(addr, link):
		return ipam.Reached, nil
	}
	return ipam.Unused, nil
}

// route asks for the entry of the routing tables that an address matches. It reports whether that is for the address
// alone, and the index of the interface on whose link the address is; nil for none.
func (n netlink) route(addr netip.Addr) (alone bool, link []byte) {
	body := make([]byte, unix.SizeofRtMsg) // struct rtmsg: family, length of the destination, …, type, flags
	body[0], body[1] = family(addr), byte(addr.BitLen())
	binary.NativeEndian.PutUint32(body[8:], unix.RTM_F_FIB_MATCH)
	_ = n.ask(unix.RTM_GETROUTE, 0, appendAttr(body, unix.RTA_DST, addr.AsSlice()), func(m []byte) {
		if len(m) < unix.SizeofRtMsg {
			return
		}
		kind, attrs := m[7], m[unix.SizeofRtMsg:]
		alone = int(m[1]) == addr.BitLen() && (kind == unix.RTN_UNICAST || kind == unix.RTN_LOCAL)
		if kind == unix.RTN_UNICAST && attr(attrs, unix.RTA_GATEWAY) == nil && attr(attrs, unix.RTA_VIA) == nil {
			link = slices.Clone(attr(attrs, unix.RTA_OIF))
		}
	})
	return alone, link
}

// reached reports whether a neighbour on a link has confirmed lately that it has an address.
func (n netlink) reached(addr netip.Addr, link []byte) (reached bool) {
	body := make([]byte, unix.SizeofNdMsg) // struct ndmsg: family, padding, interface, state, flags, type
	body[0] = family(addr)
	copy(body[4:8], link)
	_ = n.ask(unix.RTM_GETNEIGH, 0, appendAttr(body, unix.NDA_DST, addr.AsSlice()), func(m []byte) {
		reached = len(m) >= unix.SizeofNdMsg && binary.NativeEndian.Uint16(m[8:])&(unix.NUD_REACHABLE|unix.NUD_PERMANENT) != 0
	})
	return reached
}

// netlink is a socket to the kernel. The kernel answers at once; the time-out only makes sure that no verb waits without
// a bound.
type netlink struct{ fd int }

// dial opens a socket of a netlink protocol.
func dial(protocol int) (netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return netlink{}, err
	}
	return netlink{fd}, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2})
}

func (n netlink) close() { _ = unix.Close(n.fd) } // nothing is left to be written

// ask sends a request and passes each message of the answer to a function; an acknowledgement is no message. The bytes
// are valid during the call only. An error of the kernel is a unix.Errno.
func (n netlink) ask(kind, flags uint16, body []byte, each func(m []byte)) error {
	request := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	request = binary.NativeEndian.AppendUint16(request, kind)
	request = binary.NativeEndian.AppendUint16(request, unix.NLM_F_REQUEST|flags)
	request = append(append(request, make([]byte, 8)...), body...) // sequence number and sender: one request at a time needs none
	if err := unix.Sendto(n.fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buffer := make([]byte, 1<<15) // the kernel fills no larger one
	for {
		size, _, err := unix.Recvfrom(n.fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if last, err := messages(buffer[:size], each); last || err != nil {
			return err
		}
	}
}

// messages passes on the messages of one datagram, and reports whether it ends the answer.
func messages(data []byte, each func(m []byte)) (last bool, err error) {
	for len(data) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(data))
		if size < unix.SizeofNlMsghdr || size > len(data) {
			return true, unix.EBADMSG
		}
		m := data[unix.SizeofNlMsghdr:size]
		switch binary.NativeEndian.Uint16(data[4:]) {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(m) < 4 {
				return true, unix.EBADMSG
			}
			if code := int32(binary.NativeEndian.Uint32(m)); code != 0 {
				return true, unix.Errno(-code)
			}
			return true, nil
		}
		each(m)
		last = binary.NativeEndian.Uint16(data[6:])&unix.NLM_F_MULTI == 0
		data = data[min(len(data), align(size)):]
	}
	return last, nil
}

// align returns the length of a message or attribute with its padding.
func align(n int) int { return (n + 3) &^ 3 }

// appendAttr appends an attribute.
//
//go:noinline
func appendAttr(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, align(len(value))-len(value))...)
}

// attr returns the value of the first attribute of a kind; nil when there is none.
//
//go:noinline
func attr(data []byte, kind uint16) []byte {
	for len(data) >= unix.SizeofRtAttr {
		size, is := int(binary.NativeEndian.Uint16(data)), binary.NativeEndian.Uint16(data[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)
		if size < unix.SizeofRtAttr || size > len(data) {
			return nil
		}
		if is == kind {
			return data[unix.SizeofRtAttr:size]
		}
		data = data[min(len(data), align(size)):]
	}
	return nil
}

// family returns the address family.
func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
