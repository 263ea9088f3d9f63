package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/test/bench/bed"
	"github.com/limpet-io/limpet/test/bench/measure"
)

var errUnused = errors.New("the API server does not use the relay yet")

// relay stands between the API server and the controller, with the controller's own
// certificate, and takes the time of each exchange with the controller.
type relay struct {
	port   int
	server *http.Server
	to     string
	also   string // a second replica, which is asked in turns; "" for none
	turns  atomic.Int64
	client *http.Client

	only    string // the path whose exchanges are timed; "" for all
	mu      sync.Mutex
	sample  measure.Sample // answers that permit
	refused measure.Sample // answers that do not
}

// elsewhere is the address from which the relay asks. The controller gives few connections to
// clients that have its own address, as an API server on another machine has not.
var elsewhere = net.IPv4(127, 0, 0, 2)

func (b *bench) startRelay(ctx context.Context) (*relay, error) {
	roots := x509.NewCertPool()
	r := &relay{
		to: fmt.Sprintf("https://localhost:%d", b.controlled.WebhookPort),
		client: &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100,
			DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: elsewhere}}).DialContext,
		}},
	}
	var err error
	r.port, r.server, err = b.serve(ctx, r, roots)
	return r, err
}

// serve answers the API server with the controller's certificate, whose authority is
// added to roots.
func (b *bench) serve(ctx context.Context, handler http.Handler, roots *x509.CertPool) (int, *http.Server, error) {
	var secret corev1.Secret
	if err := b.Client.Get(ctx, client.ObjectKey{Namespace: bed.Namespace, Name: bed.SecretName}, &secret); err != nil {
		return 0, nil, fmt.Errorf("read certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return 0, nil, fmt.Errorf("read certificate: %w", err)
	}
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.ServeTLS(listener, "", "") }() // until it is closed
	return listener.Addr().(*net.TCPAddr).Port, server, nil
}

// ServeHTTP hands the question over whole, so that nothing but the answer is timed.
func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	question, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	begin := time.Now()
	answer, err := r.post(req.Context(), r.addressee()+req.URL.RequestURI(), question)
	took := time.Since(begin)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if r.only == "" || r.only == req.URL.Path {
		r.note(answer, took)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the API server fails the pod when it does not get it
}

// addressee is the replica that answers a question.
func (r *relay) addressee() string {
	if r.also != "" && r.turns.Add(1)%2 == 0 {
		return r.also
	}
	return r.to
}

func (r *relay) post(ctx context.Context, url string, question []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it is only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("webhook: %s", resp.Status) //nolint:err113 // for a person
	}
	return io.ReadAll(resp.Body)
}

// note keeps the time of an answer.
func (r *relay) note(answer []byte, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes.Contains(answer, []byte(`"allowed":false`)) {
		r.refused = append(r.refused, took)
		return
	}
	r.sample = append(r.sample, took)
}

// take returns the times since the last call.
func (r *relay) take() measure.Sample {
	permitted, refused := r.takeBoth()
	return append(permitted, refused...)
}

// takeBoth returns the times of answers that permit, and of those that refuse.
func (r *relay) takeBoth() (permitted, refused measure.Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	permitted, refused, r.sample, r.refused = r.sample, r.refused, nil, nil
	return permitted, refused
}

func (r *relay) used(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sample)+len(r.refused) == 0 {
		return errUnused
	}
	return nil
}

// stop ends the server, of which nothing is needed any more.
func (r *relay) stop() { _ = r.server.Close() }
