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

	"github.com/limpet-io/limpet/internal/endpoint"
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
	// Bodies is how many bytes the small requests may have together that are read, wait or
	// are handled.
	Bodies int64
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
	Small: 96, PerSource: 72, Bodies: 48 << 20,
	Wait: 1500 * time.Millisecond, Handle: 10 * time.Second,
}

// largeBodies is how many large bodies are read or wait, each of another address.
const largeBodies = 4

// smallBodyTimeout is how long a client may take to send a small body.
const smallBodyTimeout = 2 * time.Second

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
	// small and large share the memory for bodies among addresses. A body that is not
	// handled yet gives way to one of an address that has less.
	small, large *endpoint.Crowd
	refuse       func(reason string)
	clock        clock.PassiveClock
}

func newGate(limits Limits, clients *Clients, next http.Handler, refuse func(string), c clock.PassiveClock) *gate {
	return &gate{
		limits: limits, clients: clients, next: next, lanes: newLanes(limits), refuse: refuse, clock: c,
		small: endpoint.NewCrowd(limits.Bodies), large: endpoint.NewCrowd(largeBodies),
	}
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
	if 0 <= r.ContentLength && r.ContentLength <= g.limits.SmallBody {
		return g.serveSmall(w, r)
	}
	return g.serveLarge(w, r)
}

// serveSmall reads the body before the request takes a place, so that a client that sends
// none has no place.
func (g *gate) serveSmall(w http.ResponseWriter, r *http.Request) error {
	source, connection := sourceOf(r), endpoint.ConnectionOf(r.Context())
	member := g.small.Enter(source, r.ContentLength, connection.Close)
	if member == nil {
		return errBusy
	}
	defer member.Leave()
	body, elements, err := g.read(w, r, smallBodyTimeout)
	if err != nil {
		return err
	}
	small := elements <= g.limits.SmallElements
	leave, err := g.lanes.share(r.Context(), small, source)
	if err != nil {
		return err
	}
	defer leave()
	return g.handle(w, r, small, body, member)
}

// serveLarge reads the body when the address has no other large request, before the request
// keeps those of other addresses waiting.
func (g *gate) serveLarge(w http.ResponseWriter, r *http.Request) error {
	source, connection := sourceOf(r), endpoint.ConnectionOf(r.Context())
	leave, err := g.lanes.share(r.Context(), false, source)
	if err != nil {
		return err
	}
	defer leave()
	member := g.large.Enter(source, 1, connection.Close)
	if member == nil {
		return errBusy
	}
	defer member.Leave()
	body, _, err := g.read(w, r, readTimeout)
	if err != nil {
		return err
	}
	return g.handle(w, r, false, body, member)
}

// handle has a request handled in its turn, and sends the answer. While a client does not
// read the answer, its connection may be displaced again.
func (g *gate) handle(w http.ResponseWriter, r *http.Request, small bool, body []byte, member *endpoint.Member) error {
	kept := &answer{ResponseWriter: w}
	if err := g.turn(kept, r, small, body, member); err != nil {
		return err
	}
	member.Stay(false)
	kept.send()
	return nil
}

// turn has a request handled in its turn.
func (g *gate) turn(w http.ResponseWriter, r *http.Request, small bool, body []byte, member *endpoint.Member) error {
	leave, err := g.lanes.enter(r.Context(), small, g.clock.Now())
	if err != nil {
		return err
	}
	defer leave()
	member.Stay(true)
	endpoint.ConnectionOf(r.Context()).Stay()
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

// read reads the body up to the limit, and counts its elements. Memory is taken as the body
// arrives, not as its length is announced.
func (g *gate) read(w http.ResponseWriter, r *http.Request, within time.Duration) (body []byte, elements int, err error) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(g.clock.Now().Add(within)); err != nil {
		return nil, 0, fmt.Errorf("read request: %w", err)
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, g.limits.Body))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, 0, g.tooLong()
	case err != nil:
		return nil, 0, fmt.Errorf("read request: %w", err)
	}
	if elements = ArrayElements(body); elements > g.limits.Elements {
		return nil, 0, &refusal{
			http.StatusRequestEntityTooLarge, refusedElements,
			fmt.Sprintf("the request has more than %d array elements", g.limits.Elements),
		}
	}
	_ = control.SetReadDeadline(time.Time{}) // the handler may take longer
	return body, elements, nil
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
