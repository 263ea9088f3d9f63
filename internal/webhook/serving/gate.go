package serving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"k8s.io/utils/clock"
)

// Limits bound what requests may cost. The defaults keep a replica below its memory limit of
// 512 MiB, whatever is sent.
type Limits struct {
	// Body is the longest body. The API server accepts requests of 3 MiB; an AdmissionReview
	// has at most two such objects. A ConversionReview has one, because the API server
	// converts each object by itself when it reads from etcd.
	Body int64
	// Elements is the largest number of array elements in a body.
	Elements int
	// SmallBody and SmallElements bound the requests that are handled side by side. Larger
	// ones are handled one after the other.
	SmallBody     int64
	SmallElements int
	// Small is how many small requests are handled at a time, and PerSource how many of them
	// one address may ask.
	Small, PerSource int
	// Wait is how long a request waits for its turn. The API server waits 2 s for an answer
	// where a pod may be created without one.
	Wait time.Duration
	// Handle is how long a handler may take.
	Handle time.Duration
}

// DefaultLimits are the limits of the controller.
var DefaultLimits = Limits{
	Body: 7 << 20, Elements: 50_000,
	SmallBody: 128 << 10, SmallElements: 1000,
	Small: 96, PerSource: 72,
	Wait: 1500 * time.Millisecond, Handle: 10 * time.Second,
}

// Reasons why a request is refused, beside those of its connection.
const (
	refusedCertificate = "certificate"
	refusedBody        = "body"
	refusedElements    = "elements"
	refusedBusy        = "busy"
)

// gate lets a handler have the requests that are within the limits.
type gate struct {
	limits  Limits
	clients *Clients // nil: any client may ask
	next    http.Handler
	lanes   *lanes
	refuse  func(reason string)
	clock   clock.PassiveClock
}

func newGate(limits Limits, clients *Clients, next http.Handler, refuse func(string), c clock.PassiveClock) *gate {
	return &gate{limits: limits, clients: clients, next: next, lanes: newLanes(limits), refuse: refuse, clock: c}
}

// refusal is the answer to a request that is not handled.
type refusal struct {
	code    int
	reason  string // "" is not counted
	message string
}

func (r *refusal) Error() string { return r.message }

// ServeHTTP handles a request, or refuses it.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := g.serve(w, r)
	var no *refusal
	if !errors.As(err, &no) {
		return // answered, or the client is gone
	}
	if no.reason != "" {
		g.refuse(no.reason)
	}
	w.Header().Set("Connection", "close") // the rest of the body is not read
	if no.code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1") // the API server asks again while it has time
	}
	http.Error(w, "limpet-controller: "+no.message, no.code)
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request) error {
	if err := g.admit(r); err != nil {
		return err
	}
	small := 0 <= r.ContentLength && r.ContentLength <= g.limits.SmallBody
	leave, err := g.lanes.enter(r.Context(), small, sourceOf(r), g.clock.Now())
	if err != nil {
		return err
	}
	defer leave()
	body, err := g.read(w, r)
	if err != nil {
		return err
	}
	switch elements := ArrayElements(body); {
	case elements > g.limits.Elements:
		return &refusal{
			http.StatusRequestEntityTooLarge, refusedElements,
			fmt.Sprintf("the request has more than %d array elements", g.limits.Elements),
		}
	case small && elements > g.limits.SmallElements:
		leave, err := g.lanes.enter(r.Context(), false, netip.Addr{}, g.clock.Now())
		if err != nil {
			return err
		}
		defer leave()
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.limits.Handle)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.next.ServeHTTP(w, r)
	return nil
}

// admit checks what is known before the body is read.
func (g *gate) admit(r *http.Request) error {
	if r.Method != http.MethodPost {
		return &refusal{http.StatusMethodNotAllowed, "", "only POST is answered here"} // as Server.Answers expects
	}
	if g.clients != nil && r.URL.Path != ConversionPath {
		if err := g.clients.Check(r.TLS); err != nil {
			return &refusal{http.StatusForbidden, refusedCertificate, err.Error()}
		}
	}
	if r.ContentLength > g.limits.Body {
		return g.tooLong()
	}
	return nil
}

func (g *gate) tooLong() error {
	return &refusal{
		http.StatusRequestEntityTooLarge, refusedBody,
		"the request has more than " + strconv.FormatInt(g.limits.Body, 10) + " bytes",
	}
}

// read reads the body up to the limit.
func (g *gate) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, g.limits.Body))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, g.tooLong()
	case err != nil:
		return nil, fmt.Errorf("read request: %w", err)
	}
	return body.Bytes(), nil
}

// sourceOf is the address that a request came from.
func sourceOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr, _ := netip.ParseAddr(host) // the zero address counts as one source
	return addr.Unmap().WithZone("")
}
