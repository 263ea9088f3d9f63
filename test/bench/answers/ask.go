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
	"net/http"
	"strings"
	"sync"
	"time"
)

// Timeout bounds a request with its look-up: shorter than the time after which TCP sends again what was lost.
const Timeout = 500 * time.Millisecond

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
	with := t.client()
	next := time.NewTimer(rand.N(c.interval))
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-next.C:
			next.Reset(c.interval)
			go func() {
				answered := t.answers(ctx, with)
				c.mutex.Lock()
				defer c.mutex.Unlock()
				_ = c.out.Encode(Asked{t.Key, at, answered}) // when the reader is gone, the input ends as well
			}()
		}
	}
}

// client returns an HTTP client that keeps neither connections nor addresses.
func (t Target) client() *http.Client {
	dialer := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, t.DNS)
	}}}
	return &http.Client{Timeout: Timeout, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp4", address)
	}}}
}

// answers reports whether the target's pod answers.
func (t Target) answers(ctx context.Context, with *http.Client) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(t.Host, port)+"/", nil)
	if err != nil {
		return false
	}
	response, err := with.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return err == nil && strings.HasPrefix(string(text), "name="+t.Pod+" ")
}
