// Package answers is a client that asks servers again and again, and notes which requests are answered.
package answers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// timeout bounds a request with its look-up: shorter than the time after which TCP sends again what was lost.
const timeout = 500 * time.Millisecond

// port is where an echoserver listens.
const port = "8080"

// Target is a server as a client knows it.
type Target struct {
	// Key names the target in answers.
	Key string
	// Pod is the server. Answers of other servers do not count.
	Pod string
	// Host is an address, or a name if there is a DNS server.
	Host string
	// DNS is the address and port of the DNS server that is asked before each request.
	DNS string
}

// Asked is a request.
type Asked struct {
	Key      string
	At       time.Time // its beginning
	Answered bool
}

// Ask reads targets, one JSON object a line, and asks each of them every interval until the input ends. It writes one
// JSON object a line for each request. A request does not wait for the one before.
func Ask(ctx context.Context, in io.Reader, out io.Writer, interval time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &client{out: json.NewEncoder(out), interval: interval}
	lines := json.NewDecoder(bufio.NewReader(in))
	for {
		var t Target
		if err := lines.Decode(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read target: %w", err)
		}
		go c.repeat(ctx, t)
	}
}

type client struct {
	interval time.Duration
	mutex    sync.Mutex
	out      *json.Encoder
}

// repeat begins at a random time, so that not all targets are asked at the same moment.
func (c *client) repeat(ctx context.Context, t Target) {
	next := time.NewTimer(rand.N(c.interval))
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-next.C:
			next.Reset(c.interval)
			go func() {
				answered := t.answers(ctx)
				c.mutex.Lock()
				defer c.mutex.Unlock()
				_ = c.out.Encode(Asked{t.Key, at, answered}) // when the reader is gone, the input ends as well
			}()
		}
	}
}

// answers reports whether the target's pod answers.
func (t Target) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	host := t.Host
	if t.DNS != "" {
		found, err := t.resolver().LookupNetIP(ctx, "ip4", t.Host)
		if err != nil || len(found) == 0 {
			return false
		}
		host = found[0].String()
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return false
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return false
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return false
	}
	text, err := io.ReadAll(conn)
	return err == nil && strings.Contains(string(text), "\nname="+t.Pod+" ")
}

// resolver keeps no answers.
func (t Target) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, t.DNS)
	}}
}
