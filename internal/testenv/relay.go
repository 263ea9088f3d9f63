package testenv

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Relay passes connections on to the API server. A test can cut it, which is an outage for all who
// use it.
type Relay struct {
	Address string // host:port
	to      string

	mu    sync.Mutex
	l     net.Listener // nil while it is cut
	conns map[net.Conn]bool
}

// Relay starts a relay to the API server.
func (e *Env) Relay(t testing.TB) *Relay {
	t.Helper()
	to, err := url.Parse(e.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	if to.Host == "" {
		to.Host = e.Config.Host
	}
	r := &Relay{Address: "127.0.0.1:0", to: to.Host, conns: map[net.Conn]bool{}}
	r.Mend(t)
	t.Cleanup(r.Cut)
	return r
}

// Mend lets connections pass again.
func (r *Relay) Mend(t testing.TB) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", r.Address)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.l, r.Address = l, l.Addr().String()
	go r.accept(l)
}

// Cut ends all connections, and refuses new ones.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.l == nil {
		return
	}
	_ = r.l.Close() // no loop accepts from it any more
	r.l = nil
	for c := range r.conns {
		_ = c.Close() // as an outage does
	}
	clear(r.conns)
}

func (r *Relay) accept(l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go r.pass(l, from)
	}
}

func (r *Relay) pass(l net.Listener, from net.Conn) {
	to, err := new(net.Dialer).Dial("tcp", r.to)
	if err != nil {
		_ = from.Close() // the API server does not answer
		return
	}
	r.mu.Lock()
	cut := r.l != l
	if !cut {
		r.conns[from], r.conns[to] = true, true
	}
	r.mu.Unlock()
	end := func() { _, _ = from.Close(), to.Close() } // one of both has ended anyhow
	if cut {
		end()
		return
	}
	go func() {
		_, _ = io.Copy(to, from) // ends with either connection
		end()
	}()
	_, _ = io.Copy(from, to) // ends with either connection
	end()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, from)
	delete(r.conns, to)
}
