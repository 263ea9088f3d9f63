package endpoint

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Reasons why a connection is closed before anything is read from it.
const (
	RefusedConnections = "connections" // too many connections are open
	RefusedSource      = "source"      // too many connections of one address are open
	RefusedNetwork     = "network"     // the address is in none of the networks, or a stranger's
)

// Limits bound the connections that are open at a time.
type Limits struct {
	// Connections of all clients together, without those of this machine. A newcomer displaces
	// one that waits, of the address that has most.
	Connections int
	// PerSource is how many of them one address may have.
	PerSource int
	// Networks are the source addresses that may connect, beside loopback; empty for all.
	Networks []netip.Prefix
	// Strangers tells which source addresses may not connect; nil for none. Loopback may.
	Strangers func(netip.Addr) bool
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

// localConnections are those that this network namespace may have at least, beside all others: a server that asks itself,
// and the probes of the kubelet and an API server where the pod is in the network of the node.
const localConnections = 32

// Limit bounds the connections of a listener.
func Limit(l net.Listener, limits Limits) net.Listener {
	local := NewSourceLimit(int64(max(localConnections, limits.PerSource)))
	local.own = true // the next probe, whatever a process of the machine keeps open
	return &listener{Listener: l, limits: limits, all: NewSourceLimit(int64(limits.Connections)), local: local}
}

// listener counts its open connections.
type listener struct {
	net.Listener
	limits     Limits
	all, local *SourceLimit
}

// Accept returns the next connection that is within the limits.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		member, reason := l.enter(c)
		if reason == "" {
			return &conn{Conn: c, Member: member}, nil
		}
		l.refuse(reason) // before the client can notice
		_ = c.Close()    // nothing was exchanged
	}
}

func (l *listener) refuse(reason string) {
	if l.limits.Refused != nil {
		l.limits.Refused(reason)
	}
}

// enter counts a connection, or returns why it is refused. A client with the very address
// that it connects to is on this machine.
func (l *listener) enter(c net.Conn) (member *Member, reason string) {
	source, limit := SourceOf(c.RemoteAddr()), l.all
	switch {
	case source.IsValid() && source == SourceOf(c.LocalAddr()):
		limit = l.local
	case !l.allowed(source):
		return nil, RefusedNetwork
	case limit.weightOf(source) >= int64(l.limits.PerSource): // only Accept adds to it
		return nil, RefusedSource
	}
	member = limit.Enter(source, 1, func() {
		_ = c.Close() // its server ends it like one that the client closed
		l.refuse(RefusedConnections)
	})
	if member == nil {
		return nil, RefusedConnections
	}
	return member, ""
}

// allowed reports whether an address may connect. Loopback may: the program asks itself
// whether it answers.
func (l *listener) allowed(source netip.Addr) bool {
	if source.IsLoopback() || l.limits.Strangers != nil && l.limits.Strangers(source) {
		return source.IsLoopback()
	}
	return len(l.limits.Networks) == 0 || slices.ContainsFunc(l.limits.Networks, func(n netip.Prefix) bool { return n.Contains(source) })
}

// SourceOf is the address of a client, the IPv4 address where both forms exist.
func SourceOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// conn is a connection that was counted.
type conn struct {
	net.Conn
	*Member
}

// Close closes the connection and ends its count.
func (c *conn) Close() error {
	defer c.Leave()
	return c.Conn.Close()
}
