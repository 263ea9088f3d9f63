package testenv

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Traffic is the requests of one client, which a test counts and may hold up.
type Traffic struct {
	next http.RoundTripper

	mu    sync.Mutex
	paths []string
	sizes []int         // of the answers that have ended
	held  string        // part of the paths that are held up; "" for none
	gate  chan struct{} // closed to let them pass
}

// Observe makes a client, with every permission and no cache, whose requests are counted.
func (e *Env) Observe(t testing.TB) (client.Client, *Traffic) {
	t.Helper()
	traffic := &Traffic{}
	config := rest.CopyConfig(e.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		traffic.next = next
		return traffic
	})
	c, err := client.New(config, client.Options{Scheme: e.Scheme, Mapper: e.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c, traffic
}

// Hold holds up the requests whose paths have a part, until release is called or the test
// ends.
func (r *Traffic) Hold(t testing.TB, part string) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	r.mu.Lock()
	r.held, r.gate = part, gate
	r.mu.Unlock()
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	return release
}

// Count returns how many requests had a part in their paths.
func (r *Traffic) Count(part string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, path := range r.paths {
		if strings.Contains(path, part) {
			n++
		}
	}
	return n
}

// RoundTrip counts a request, and holds it up if the test says so.
func (r *Traffic) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.paths = append(r.paths, req.URL.Path)
	gate := r.gate
	if r.held == "" || !strings.Contains(req.URL.Path, r.held) {
		gate = nil
	}
	r.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	answer, err := r.next.RoundTrip(req)
	if err == nil {
		answer.Body = &counted{ReadCloser: answer.Body, by: r}
	}
	return answer, err
}

// Largest returns the size of the largest answer that was read.
func (r *Traffic) Largest() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Max(append([]int{0}, r.sizes...))
}

// counted is the body of an answer.
type counted struct {
	io.ReadCloser
	by   *Traffic
	size int
}

// Read counts what is read.
func (c *counted) Read(into []byte) (int, error) {
	n, err := c.ReadCloser.Read(into)
	c.size += n
	return n, err
}

// Close notes the size of the answer.
func (c *counted) Close() error {
	c.by.mu.Lock()
	c.by.sizes = append(c.by.sizes, c.size)
	c.by.mu.Unlock()
	return c.ReadCloser.Close()
}
