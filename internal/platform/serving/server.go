package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/limpet-io/limpet/internal/platform/endpoint"
)

const (
	// readTimeout is how long a client may take to send a request.
	readTimeout = 5 * time.Second
	// answerTimeout is how long a request may take altogether: headers and body, waiting
	// twice for its turn, the handler, and the answer.
	answerTimeout = 30 * time.Second
	// shutdownTimeout is how long requests may take after the server was told to stop.
	shutdownTimeout = 10 * time.Second
)

// connections bounds the connections of API servers. One of them sends at most 600 requests
// at a time by default, and needs a connection for each.
var connections = endpoint.Limits{Connections: 2048, PerSource: 1024}

// Options configure a server.
type Options struct {
	Host        string // "" for all addresses
	Port        int
	Certificate *Certificate
	// Clients may ask for admissions; nil for every client.
	Clients *Clients
	// Networks are the addresses that may connect; empty for all.
	Networks []netip.Prefix
	// Strangers may not connect or ask; nil for none.
	Strangers *Strangers
	Limits    Limits
	// AnswerInReview are the paths on which a request that is not handled is answered with an
	// AdmissionReview, so that it does not pass because its webhook failed.
	AnswerInReview []string
	Registry       prometheus.Registerer
	Clock          clock.PassiveClock
}

// Server is the webhook server. It has the bounds that the one of controller-runtime lacks,
// and takes from that one the registration of handlers, with their metrics.
type Server struct {
	webhook.Server
	options Options
	gate    *gate
	refused *prometheus.CounterVec
	started atomic.Bool
}

// NewServer returns a server that has not started.
func NewServer(o Options) *Server {
	mux := http.NewServeMux()
	s := &Server{
		Server:  webhook.NewServer(webhook.Options{Port: o.Port, WebhookMux: mux}),
		options: o,
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_webhook_refusals_total", Help: "Connections and requests that the webhook server refused without handling them, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{
		endpoint.RefusedConnections, endpoint.RefusedSource, endpoint.RefusedNetwork,
		refusedCertificate, refusedBody, refusedElements, refusedBusy,
	} {
		s.refused.WithLabelValues(reason)
	}
	o.Registry.MustRegister(s.refused)
	s.gate = newGate(o.Limits, o.Clients, mux, s.refuse, o.Clock)
	s.gate.inReview, s.gate.strangers = o.AnswerInReview, o.Strangers
	return s
}

func (s *Server) refuse(reason string) { s.refused.WithLabelValues(reason).Inc() }

// Start serves until ctx ends. Requests that are handled then go on until their own end: a
// handler whose context ended would refuse what a handler of another replica allows.
func (s *Server) Start(ctx context.Context) error {
	limits := connections
	limits.Networks, limits.Refused = s.options.Networks, s.refuse
	if s.options.Strangers != nil {
		limits.Strangers = s.options.Strangers.Has
	}
	raw, err := endpoint.Listen(ctx, s.address(), limits)
	if err != nil {
		return err
	}
	logger := log.FromContext(ctx).WithName("webhook")
	server := endpoint.NewServer(context.WithoutCancel(ctx), s.gate, readTimeout, answerTimeout, logger)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		until, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(until); err != nil {
			logger.Error(err, "Webhook server was stopped with open requests")
		}
	}()
	s.started.Store(true)
	logger.Info("Serving webhooks", "address", raw.Addr().String())
	if err := server.Serve(tls.NewListener(raw, s.tls())); !errors.Is(err, http.ErrServerClosed) { //nolint:contextcheck // a handshake has a context of its own
		return fmt.Errorf("serve webhooks: %w", err)
	}
	<-stopped
	return nil
}

func (s *Server) address() string {
	return net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
}

// tls is the configuration of connections. HTTP/2 is not offered: the API server uses
// HTTP/1.1 for services, so that its requests spread over the replicas, and without HTTP/2 a
// bound of connections is a bound of requests.
func (s *Server) tls() *tls.Config {
	cfg := &tls.Config{NextProtos: []string{"http/1.1"}}
	s.options.Certificate.Configure(cfg)
	signInTurns(cfg)
	if s.options.Clients != nil {
		s.options.Clients.configure(cfg)
	}
	return cfg
}

// errNotStarted is returned until the server listens.
var errNotStarted = errors.New("webhook server has not been started yet")

// StartedChecker returns a check that the server answers.
func (s *Server) StartedChecker() healthz.Checker {
	return func(r *http.Request) error { return s.Answers(r.Context()) }
}

// answeredLately is how long the last answer shows that the server answers.
const answeredLately = 5 * time.Second

// Answers asks the server for an answer, as a client without a certificate would. The answer
// is a refusal; it shows that connections are accepted and requests are read. The answer to
// another client a moment ago shows the same, and no flood of requests can delay it.
func (s *Server) Answers(ctx context.Context) error {
	if !s.started.Load() {
		return errNotStarted
	}
	if s.options.Clock.Now().Sub(time.Unix(0, s.gate.answered.Load())).Abs() < answeredLately { // also after the clock has stepped back
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost", nil)
	if err != nil {
		return fmt.Errorf("ask webhook server: %w", err)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.address()) // without a host: this machine, by no name
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the answer is not read
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("ask webhook server: %w", err)
	}
	_ = resp.Body.Close() // its status is enough
	return nil
}

// Oldest is when the oldest request began that is still handled; now if there is none.
func (s *Server) Oldest(now time.Time) time.Time { return s.gate.lanes.oldest(now) }
