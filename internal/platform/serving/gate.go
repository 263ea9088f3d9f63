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
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/platform/endpoint"
)

// Limits bound what requests may cost. The defaults keep a replica below its memory limit of
// 512 MiB, whatever is sent.
type Limits struct {
	// Admission bounds a request for an admission. The API server accepts requests of 3 MiB;
	// an AdmissionReview has at most two such objects.
	Admission Size
	// Conversion bounds a ConversionReview. It has one object, because the API server
	// converts each object by itself when it reads from etcd, and etcd stores 1.5 MiB. No
	// object that can be stored is refused: one such object would make every list fail.
	Conversion Size
	// SmallRequest bounds the requests that are handled side by side. Larger ones are handled
	// one after the other.
	SmallRequest Size
	// Small is how many small admissions are handled at a time, PerSource how many of them one
	// address may ask, and PerNamespace how many of these may be about one namespace: the API
	// server is one address for all tenants.
	Small, PerSource, PerNamespace int
	// Bodies is how many bytes the small requests may have together that are read, wait or
	// are handled.
	Bodies int64
	// Answers is how many bytes the answers may have together that clients have not read yet.
	Answers int64
	// Wait is how long a request waits for its turn. The API server waits 2 s for an answer
	// where a pod may be created without one.
	Wait time.Duration
	// Handle is how long a handler may take.
	Handle time.Duration
}

// DefaultLimits are the limits of the controller.
//
// The shortest values of an object that can be stored are finalizers with 6 bytes, and owner
// references with 50 bytes that count as 10 values. So 1.5 MiB have less than 400 000. An
// AdmissionReview of two objects full of records has 360 000.
var DefaultLimits = Limits{
	Admission: Size{7 << 20, 400_000}, Conversion: Size{2 << 20, 400_000}, SmallRequest: Size{128 << 10, 6000},
	Small: 96, PerSource: 72, PerNamespace: 32, Bodies: 48 << 20, Answers: 16 << 20,
	Wait: 1500 * time.Millisecond, Handle: 10 * time.Second,
}

// largeBodies is how many large bodies of admissions, and of conversions, are read or wait,
// each of another address.
const largeBodies = 4

// smallConversionsAtOnce is how many small conversions are handled at a time, each of another
// address. One takes less than 10 ms.
const smallConversionsAtOnce = 2

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
	limits    Limits
	clients   *Clients   // nil: any client may ask
	strangers *Strangers // nil: none
	next      http.Handler
	lanes     *lanes
	// The limits share the memory for bodies and answers among addresses. A body that is not
	// handled yet, or an answer, gives way to one of an address that has less.
	small, answers *endpoint.SourceLimit
	refuse         func(reason string)
	clock          clock.PassiveClock
	inReview       []string     // see Options.AnswerInReview
	answered       atomic.Int64 // when a request was last answered or refused, in ns
}

func newGate(limits Limits, clients *Clients, next http.Handler, refuse func(string), c clock.PassiveClock) *gate {
	return &gate{
		limits: limits, clients: clients, next: next, lanes: newLanes(limits), refuse: refuse, clock: c,
		small: endpoint.NewSourceLimit(limits.Bodies), answers: endpoint.NewSourceLimit(limits.Answers),
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
	defer func() { g.answered.Store(g.clock.Now().UnixNano()) }()
	within := timeOf(r) // from now on: the wait for a turn counts, too
	if slices.Contains(g.inReview, r.URL.Path) {
		within = timeBefore(r)
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	// The request of net/http keeps its own body: net/http tells by the type of the body that it was
	// not read, and gives the client time to read the answer before the connection is reset.
	r = r.WithContext(ctx)
	body := &recorder{ReadCloser: r.Body}
	r.Body = body
	err := g.serve(w, r) //nolint:contextcheck // what it reads of addresses is in memory
	var no *refusal
	switch {
	case err == nil:
		return
	case !errors.As(err, &no): // the client sends too slowly, or is gone
		w.WriteHeader(http.StatusRequestTimeout)
		return
	}
	if no.reason != "" {
		g.refuse(no.reason)
	}
	w.Header().Set("Connection", "close") // the rest of the body is not read
	if slices.Contains(g.inReview, r.URL.Path) && no.code != http.StatusForbidden && g.answerInReview(w, body, no) {
		return
	}
	if no.code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1") // the API server asks again while it has time
	}
	http.Error(w, "limpet-controller: "+no.message, no.code)
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request) error {
	if err := g.admit(r); err != nil {
		return err
	}
	if 0 <= r.ContentLength && r.ContentLength <= g.limits.SmallRequest.Bytes {
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
	body, size, err := g.read(w, r, smallBodyTimeout)
	if err != nil {
		return err
	}
	in := g.lanes.of[kind{r.URL.Path == ConversionPath, size.within(g.limits.SmallRequest)}]
	leave, err := g.lanes.share(r.Context(), in, partyOf(r, source, body))
	if err != nil {
		return err
	}
	defer leave()
	return g.handle(w, r, in, body, member)
}

// partyOf is whose share of places a request takes. Conversions do not name a namespace.
func partyOf(r *http.Request, source netip.Addr, head []byte) party {
	if r.URL.Path == ConversionPath {
		return party{source: source}
	}
	return party{source, namespaceOf(head)}
}

// serveLarge reads the body when the address has no other large request, before the request
// keeps those of other addresses waiting. The head of the body tells its namespace before.
func (g *gate) serveLarge(w http.ResponseWriter, r *http.Request) error {
	source, connection := sourceOf(r), endpoint.ConnectionOf(r.Context())
	in := g.lanes.of[kind{conversion: r.URL.Path == ConversionPath}]
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(g.clock.Now().Add(smallBodyTimeout)); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	head, err := peek(r)
	if err != nil {
		return fmt.Errorf("read head of request: %w", err)
	}
	leave, err := g.lanes.share(r.Context(), in, partyOf(r, source, head))
	if err != nil {
		return err
	}
	defer leave()
	member := in.bodies.Enter(source, 1, connection.Close)
	if member == nil {
		return errBusy
	}
	defer member.Leave()
	body, _, err := g.read(w, r, readTimeout)
	if err != nil {
		return err
	}
	return g.handle(w, r, in, body, member)
}

// handle has a request handled in its turn, and sends the answer. While a client does not
// read the answer, its connection may be displaced again.
func (g *gate) handle(w http.ResponseWriter, r *http.Request, in *lane, body []byte, member *endpoint.Member) error {
	kept := &answer{ResponseWriter: w}
	if err := g.turn(kept, r, in, body, member); err != nil {
		return err
	}
	member.Leave() // the body is not needed any more
	unread := g.answers.Enter(sourceOf(r), int64(kept.body.Cap()), endpoint.ConnectionOf(r.Context()).Close)
	if unread == nil {
		return errBusy
	}
	defer unread.Leave()
	kept.send()
	return nil
}

// turn has a request handled in its turn.
func (g *gate) turn(w http.ResponseWriter, r *http.Request, in *lane, body []byte, member *endpoint.Member) error {
	leave, err := g.lanes.enter(r.Context(), in, sourceOf(r), g.clock.Now())
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
	if err := g.admitSource(r); err != nil {
		return err
	}
	if g.clients != nil && r.URL.Path != ConversionPath {
		if err := g.clients.check(r.TLS); err != nil {
			return &refusal{http.StatusForbidden, refusedCertificate, err.Error()}
		}
	}
	if most := g.most(r); r.ContentLength > most.Bytes {
		return tooLong(most)
	}
	return nil
}

// most is the largest size of a request.
func (g *gate) most(r *http.Request) Size {
	if r.URL.Path == ConversionPath {
		return g.limits.Conversion
	}
	return g.limits.Admission
}

func tooLong(most Size) error {
	return &refusal{
		http.StatusRequestEntityTooLarge, refusedBody,
		fmt.Sprintf("the request has more than %d bytes, where <, > and & have six", most.Bytes),
	}
}

// read reads the body up to the limit, and measures it. Memory is taken as the body arrives,
// not as its length is announced.
func (g *gate) read(w http.ResponseWriter, r *http.Request, within time.Duration) (body []byte, size Size, err error) {
	control, most := http.NewResponseController(w), g.most(r)
	if err := control.SetReadDeadline(g.clock.Now().Add(within)); err != nil {
		return nil, Size{}, fmt.Errorf("read request: %w", err)
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, most.Bytes))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, Size{}, tooLong(most)
	case err != nil:
		return nil, Size{}, fmt.Errorf("read request: %w", err)
	}
	switch size = SizeOf(body, r.URL.Path == ConversionPath); {
	case size.Bytes > most.Bytes:
		return nil, Size{}, tooLong(most)
	case size.Values > most.Values:
		return nil, Size{}, &refusal{
			http.StatusRequestEntityTooLarge, refusedElements,
			fmt.Sprintf("the request has more than %d values, where an array element counts as %d", most.Values, elementValues),
		}
	}
	_ = control.SetReadDeadline(time.Time{}) // the handler may take longer
	return body, size, nil
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
