package endpoint

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Reasons why a connection is closed before anything is read from it.
const (
	RefusedConnections = "connections" // too many connections are open
	RefusedSource      = "source"      // too many connections of one address are open
	RefusedNetwork     = "network"     // the address is in none of the networks
)

// Limits bound the connections that are open at a time.
type Limits struct {
	// Connections of all clients together.
	Connections int
	// PerSource is how many of them one address may have.
	PerSource int
	// Networks are the source addresses that may connect, beside loopback; empty for all.
	Networks []netip.Prefix
	// Refused is called with the reason when a connection is closed; nil for no call.
	Refused func(reason string)
}

// Listen listens on a TCP address. Connections beyond the limits are closed at once, so that
// one client cannot keep the others waiting.
func Listen(ctx context.Context, address string, limits Limits) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return Limit(l, limits), nil
}

// Limit bounds the connections of a listener.
func Limit(l net.Listener, limits Limits) net.Listener {
	return &listener{Listener: l, limits: limits, bySource: map[netip.Addr]int{}}
}

// listener counts its open connections.
type listener struct {
	net.Listener
	limits Limits

	mu       sync.Mutex
	open     int
	bySource map[netip.Addr]int
}

// Accept returns the next connection that is within the limits.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := sourceOf(c.RemoteAddr())
		reason := l.enter(source)
		if reason == "" {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(source) })}, nil
		}
		_ = c.Close() // nothing was exchanged
		if l.limits.Refused != nil {
			l.limits.Refused(reason)
		}
	}
}

// enter counts a connection, or returns why it is refused.
func (l *listener) enter(source netip.Addr) (reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.allowed(source):
		return RefusedNetwork
	case l.open >= l.limits.Connections:
		return RefusedConnections
	case l.bySource[source] >= l.limits.PerSource:
		return RefusedSource
	}
	l.open++
	l.bySource[source]++
	return ""
}

func (l *listener) leave(source netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.bySource[source]--; l.bySource[source] == 0 {
		delete(l.bySource, source)
	}
}

// allowed tells whether an address may connect. Loopback may: the program asks itself
// whether it answers.
func (l *listener) allowed(source netip.Addr) bool {
	return len(l.limits.Networks) == 0 || source.IsLoopback() ||
		slices.ContainsFunc(l.limits.Networks, func(n netip.Prefix) bool { return n.Contains(source) })
}

// sourceOf is the address of a client, the IPv4 address where both forms exist.
func sourceOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// conn is a connection that was counted.
type conn struct {
	net.Conn
	leave func()
}

// Close closes the connection and ends its count.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
