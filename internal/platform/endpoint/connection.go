package endpoint

import (
	"context"
	"net"
)

// Connection is the one of a request.
type Connection struct{ counted *conn }

type connectionKey struct{}

// ConnectionOf returns the connection of a request by the request's context.
func ConnectionOf(ctx context.Context) Connection {
	c, _ := ctx.Value(connectionKey{}).(*conn) // nil for a listener without limits
	return Connection{c}
}

// Stay keeps the connection from being displaced until its request is answered.
func (c Connection) Stay() {
	if c.counted != nil {
		c.counted.Stay(true)
	}
}

// Close ends the connection and, by that, the context of its request.
func (c Connection) Close() {
	if c.counted != nil {
		_ = c.counted.Close() // no one waits for its answer
	}
}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, counted(c))
}

// counted is the connection below TLS; nil if it was not counted.
func counted(c net.Conn) *conn {
	if below, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = below.NetConn()
	}
	found, _ := c.(*conn)
	return found
}
