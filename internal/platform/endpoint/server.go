package endpoint

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxHeader bounds the headers of a request. Those of the kubelet, of Prometheus and of
	// the API server have less than 2 KiB.
	maxHeader = 16 << 10
	// headerTimeout is how long a client may take for the headers, and for a TLS handshake.
	headerTimeout = 5 * time.Second
	// idleTimeout ends connections without requests. It is that of the API server's client.
	idleTimeout = 90 * time.Second
)

// Reads are the limits of probes and metrics, which few clients ask for.
var Reads = Limits{Connections: 128, PerSource: 32}

// NewServer returns a server with bounds. body is how long a client may take to send a
// request, and answer how long the whole request may take.
func NewServer(ctx context.Context, handler http.Handler, body, answer time.Duration, log logr.Logger) *http.Server {
	return &http.Server{
		Handler:     handler,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: withConnection,
		ConnState: func(c net.Conn, state http.ConnState) {
			if counted := counted(c); counted != nil && state == http.StateIdle {
				counted.Stay(false)
			}
		},

		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       body,
		WriteTimeout:      answer,
		IdleTimeout:       idleTimeout,
		// A client without a certificate must not fill the log.
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(log.V(1)), slog.LevelInfo),
	}
}

// NewReadServer returns a server of probes and metrics. It ends each connection with its
// answer: kept ones would be in the way of the next probe.
func NewReadServer(ctx context.Context, handler http.Handler, log logr.Logger) *http.Server {
	s := NewServer(ctx, readOnly(handler), headerTimeout, 30*time.Second, log)
	s.SetKeepAlivesEnabled(false)
	return s
}

// readOnly answers requests that read, and refuses all others before their body is read.
func readOnly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.Header().Set("Connection", "close") // what the client sends is not read
			http.Error(w, "only GET and HEAD are answered here", http.StatusMethodNotAllowed)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// Metrics shows what a registry gathers.
func Metrics(registry prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}
