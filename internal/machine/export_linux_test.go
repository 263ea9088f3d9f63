package machine

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Unsure is for the tests.
var Unsure = unsure

// Within is for the tests.
func Within(bound time.Duration, look func() bool) (found, inTime bool) { return within(bound, look) }

// Unread reports whether the socket that receives the answers about an address has something to read, after something was done.
func Unread(link string, a netip.Addr, done func() error) (bool, error) {
	s, err := openSegment(link, []netip.Addr{a})
	defer s.close()
	if err == nil {
		err = done()
	}
	n, _ := unix.Poll(s.sockets, 100)
	return n > 0, err
}
