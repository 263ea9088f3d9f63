package testenv

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Relay passes connections on to the API server. A test can cut it, which is an outage for all who
// use it, freeze it, so that connections stay open and nothing passes, or slow it down.
type Relay struct {
	Address string // host:port
	to      string

	mu    sync.Mutex
	l     net.Listener // nil while it is cut
	conns map[net.Conn]bool
	thaw  chan struct{} // closed when something passes again; nil while all passes
	late  time.Duration
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
	r := &Relay{Address: FreeAddress(t), to: to.Host, conns: map[net.Conn]bool{}}
	r.Mend(t)
	t.Cleanup(func() {
		r.Cut()
		r.Thaw()
	})
	return r
}

// Freeze lets nothing pass, with connections open, until Thaw.
func (r *Relay) Freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.thaw == nil {
		r.thaw = make(chan struct{})
	}
}

// Thaw lets everything pass again, also what came meanwhile.
func (r *Relay) Thaw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.thaw != nil {
		close(r.thaw)
		r.thaw = nil
	}
}

// Slow lets each piece pass after a time.
func (r *Relay) Slow(late time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = late
}

// Write is the writer to one side of a connection.
func (w slowed) Write(piece []byte) (int, error) {
	w.r.mu.Lock()
	thaw, late := w.r.thaw, w.r.late
	w.r.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
	if late > 0 {
		<-time.NewTimer(late).C
	}
	return w.to.Write(piece) //nolint:wrapcheck // of a connection
}

type slowed struct {
	r  *Relay
	to net.Conn
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
	r.l = l
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
		_, _ = io.Copy(slowed{r, to}, from) // ends with either connection
		end()
	}()
	_, _ = io.Copy(slowed{r, from}, to) // ends with either connection
	end()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, from)
	delete(r.conns, to)
}
