package offline

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Cache stands between a kubelet and the API server, as the hub of an edge node does. Without an API server a kubelet
// starts static pods alone, and the cache tells it of all its pods.
type Cache struct {
	upstream *http.Client
	host     *url.URL
	server   http.Server

	mutex sync.Mutex
	// asked are the reads of the kubelet, without the resource version, and how it accepts the answers.
	asked map[string]string
	// answers are those of the last moment with an API server; nil while there is one.
	answers map[string]answer
}

type answer struct {
	kind string // of the content
	body []byte
}

// Serve starts a cache that asks as a kubelet does, by its configuration.
func Serve(listener net.Listener, kubelet *rest.Config) (*Cache, error) {
	upstream, err := rest.HTTPClientFor(kubelet)
	if err != nil {
		return nil, fmt.Errorf("make client of kubelet: %w", err)
	}
	host, err := url.Parse(kubelet.Host)
	if err != nil {
		return nil, fmt.Errorf("parse host of API server: %w", err)
	}
	c := &Cache{upstream: upstream, host: host, asked: map[string]string{}}
	proxy := httputil.NewSingleHostReverseProxy(host)
	proxy.Transport, proxy.FlushInterval = upstream.Transport, -1
	proxy.ErrorLog = log.New(io.Discard, "", 0) // each watch ends with an error there
	c.server.ReadHeaderTimeout = time.Minute
	c.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.offline() {
			c.answer(w, r)
			return
		}
		if r.URL.Query().Has("sendInitialEvents") { // a watch that begins with a list, which the kubelet can do without
			http.Error(w, "the cache knows lists", http.StatusUnprocessableEntity)
			return
		}
		c.note(r)
		proxy.ServeHTTP(w, r)
	})
	go func() { _ = c.server.Serve(listener) }()
	return c, nil
}

// Close ends the cache.
func (c *Cache) Close() error { return c.server.Close() }

// key is a read without the resource version, which changes.
func key(r *http.Request) string {
	query := r.URL.Query()
	query.Del("resourceVersion")
	query.Del("resourceVersionMatch")
	return r.URL.Path + "?" + query.Encode()
}

func watches(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func (c *Cache) note(r *http.Request) {
	if r.Method != http.MethodGet || watches(r) {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.asked[key(r)] = r.Header.Get("Accept")
}

func (c *Cache) offline() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.answers != nil
}

// Disconnect repeats all that the kubelet has read. From then on the kubelet gets these answers.
func (c *Cache) Disconnect(ctx context.Context) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	answers := map[string]answer{}
	for read, accept := range c.asked {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.host.String()+read, nil)
		if err != nil {
			return fmt.Errorf("read %s: %w", read, err)
		}
		r.Header.Set("Accept", accept)
		response, err := c.upstream.Do(r)
		if err != nil {
			return fmt.Errorf("read %s: %w", read, err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // it was read
		if err != nil {
			return fmt.Errorf("read %s: %w", read, err)
		}
		if response.StatusCode == http.StatusOK {
			answers[read] = answer{response.Header.Get("Content-Type"), body}
		}
	}
	c.answers = answers
	return nil
}

// Connect ends what Disconnect began.
func (c *Cache) Connect() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.answers = nil
}

// answer answers a read as before. A watch has no events, and no write succeeds.
func (c *Cache) answer(w http.ResponseWriter, r *http.Request) {
	c.mutex.Lock()
	known, ok := c.answers[key(r)]
	c.mutex.Unlock()
	switch {
	case r.Method == http.MethodGet && watches(r) && !r.URL.Query().Has("sendInitialEvents"):
		w.Header().Set("Content-Type", r.Header.Get("Accept"))
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // the kubelet notices by itself that its watch has ended
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Minute):
		}
	case r.Method == http.MethodGet && ok:
		w.Header().Set("Content-Type", known.kind)
		_, _ = io.Copy(w, bytes.NewReader(known.body))
	default:
		http.Error(w, "no API server", http.StatusServiceUnavailable)
	}
}
