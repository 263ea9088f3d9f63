package endpoint_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/platform/endpoint"
)

// counts is how often connections were refused, by reason.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counts) add(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[reason]++
}

func (c *counts) get(reason string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[reason]
}

// serve answers on loopback until the test ends.
func serve(t *testing.T, limits endpoint.Limits, body time.Duration, handler http.Handler) (address string) {
	t.Helper()
	l, err := endpoint.Listen(t.Context(), "127.0.0.1:0", limits)
	if err != nil {
		t.Fatal(err)
	}
	server := endpoint.NewServer(t.Context(), handler, body, time.Minute, logr.Discard())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close() // whatever is open
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// connect opens a connection from a loopback address and asks for an answer on it.
func connect(t *testing.T, from, to string) (answered bool) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it is kept open until then
	if _, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return false
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })

func TestConnectionsAreBounded(t *testing.T) {
	refused := &counts{of: map[string]int{}}
	to := serve(t, endpoint.Limits{Connections: 5, PerSource: 3, Refused: refused.add}, time.Minute, ok)
	for _, step := range []struct {
		from   string
		want   bool
		reason string // that is counted
	}{
		{"127.0.0.2", true, ""},
		{"127.0.0.2", true, ""},
		{"127.0.0.2", true, ""},
		{"127.0.0.2", false, endpoint.RefusedSource},
		{"127.0.0.3", true, ""},
		{"127.0.0.3", true, ""},
		{"127.0.0.3", true, endpoint.RefusedConnections}, // one of 127.0.0.2 is closed, which has more
		{"127.0.0.2", true, endpoint.RefusedConnections}, // and now one of 127.0.0.3
		{"127.0.0.3", true, endpoint.RefusedConnections},
		{"127.0.0.3", false, endpoint.RefusedSource},
		{"127.0.0.4", true, endpoint.RefusedConnections},
		{"127.0.0.1", true, ""}, // the machine itself
	} {
		before := refused.get(step.reason)
		if got := connect(t, step.from, to); got != step.want {
			t.Errorf("connection from %s: answered %t, want %t", step.from, got, step.want)
		}
		if step.reason != "" && refused.get(step.reason) != before+1 {
			t.Errorf("refusals by %s: %d, want %d", step.reason, refused.get(step.reason), before+1)
		}
	}
}

// A connection whose request is being handled stays, and with only such ones a newcomer is
// refused.
func TestAConnectionThatIsAnsweredStays(t *testing.T) {
	begun, free := make(chan struct{}), make(chan struct{})
	to := serve(t, endpoint.Limits{Connections: 2, PerSource: 2}, time.Minute, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint.ConnectionOf(r.Context()).Stay()
		begun <- struct{}{}
		<-free
		_, _ = w.Write([]byte("ok")) // connect notices an error
	}))
	answers := make(chan bool, 2)
	for range 2 {
		go func() { answers <- connect(t, "127.0.0.2", to) }()
		<-begun
	}
	if connect(t, "127.0.0.3", to) {
		t.Error("a newcomer is answered, want those that came before")
	}
	close(free)
	for range 2 {
		if !<-answers {
			t.Error("a connection with a request was closed")
		}
	}
}

// The kubelet's probe is answered, whatever others keep open: it restarts a program that
// does not answer. Another machine's probe is answered, too.
func TestProbesAreAnsweredWhateverOthersKeepOpen(t *testing.T) {
	l, err := endpoint.Listen(t.Context(), "127.0.0.1:0", endpoint.Reads)
	if err != nil {
		t.Fatal(err)
	}
	server := endpoint.NewReadServer(t.Context(), ok, logr.Discard())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close() // whatever is open
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	for i := range 4 * endpoint.Reads.PerSource {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(2+i%4))}}
		c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // it sends nothing until then
	}
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		if !connect(t, from, l.Addr().String()) {
			t.Errorf("a probe from %s has no answer", from)
		}
	}
}

// A closed connection makes room for another one.
func TestAClosedConnectionIsNotCounted(t *testing.T) {
	to := serve(t, endpoint.Limits{Connections: 1, PerSource: 1}, time.Minute, ok)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range 20 {
		resp, err := (&http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}).Get("http://" + to)
		if err != nil {
			continue // the server may not have closed its end of the one before
		}
		_ = resp.Body.Close() // its status is enough
	}
	for tries := 0; !connect(t, "127.0.0.2", to); tries++ {
		if tries > 1000 {
			t.Fatal("no connection is accepted after all were closed")
		}
	}
}

// from is a listener whose clients have any address.
type from struct {
	net.Listener
	addresses chan net.Addr
}

type remote struct {
	net.Conn
	address net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.address }

func (f from) Accept() (net.Conn, error) {
	a, open := <-f.addresses
	if !open {
		return nil, io.EOF
	}
	c, _ := net.Pipe()
	return remote{c, a}, nil
}

func TestOnlySomeNetworksMayConnect(t *testing.T) {
	refused := &counts{of: map[string]int{}}
	f := from{addresses: make(chan net.Addr, 10)}
	l := endpoint.Limit(f, endpoint.Limits{
		Connections: 100, PerSource: 100, Refused: refused.add,
		Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/64")},
	})
	addresses := map[string]bool{
		"10.1.2.3:1": true, "10.2.0.1:1": false, "[::ffff:10.1.2.3]:1": true, "[fd00:1::7]:1": true, "[fd00:2::7]:1": false,
		"127.0.0.1:1": true, "[::1]:1": true,
	}
	want := 0
	for a, accepted := range addresses {
		f.addresses <- net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a))
		if accepted {
			want++
		}
	}
	close(f.addresses)
	got := 0
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		got++
		if a := c.RemoteAddr().String(); !addresses[a] && a != "10.1.2.3:1" { // the mapped address is printed as IPv4
			t.Errorf("%s was accepted", a)
		}
	}
	if got != want || refused.get(endpoint.RefusedNetwork) != len(addresses)-want {
		t.Errorf("%d accepted and %d refused, want %d and %d", got, refused.get(endpoint.RefusedNetwork), want, len(addresses)-want)
	}
}

// A client that sends slowly is cut off, and does not keep its connection.
func TestASlowClientIsCutOff(t *testing.T) {
	read := make(chan error, 1)
	to := serve(t, endpoint.Reads, 50*time.Millisecond, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
	}))
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the server has closed its end
	if _, err := fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nonly this"); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err == nil {
		t.Error("the handler read a body that was never sent")
	}
	if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection stays open: %v", err)
	}
}

func TestLongHeadersAreRefused(t *testing.T) {
	to := serve(t, endpoint.Reads, time.Minute, ok)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+to, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X", strings.Repeat("x", 64<<10))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // the server closed the connection while the client still sent
	}
	_ = resp.Body.Close() // its status is enough
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestPortsAreReadOnly(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "shown"}))
	server := endpoint.NewReadServer(context.WithoutCancel(t.Context()), endpoint.Metrics(registry), logr.Discard())
	for method, want := range map[string]int{
		http.MethodGet: 200, http.MethodHead: 200,
		http.MethodPost: 405, http.MethodPut: 405, http.MethodPatch: 405, http.MethodDelete: 405, http.MethodOptions: 405, http.MethodTrace: 405, "X": 405,
	} {
		w := httptest.NewRecorder()
		server.Handler.ServeHTTP(w, httptest.NewRequest(method, "/metrics", strings.NewReader("x")))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", method, w.Code, want)
		}
		if shown := strings.Contains(w.Body.String(), "shown 0"); shown != (want == 200) { // a recorder keeps the body of HEAD
			t.Errorf("%s: %q", method, w.Body)
		}
	}
}
