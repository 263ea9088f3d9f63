package serving_test

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
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/testenv"
)

const path = "/mutate-pod"

// limits are small enough for a test to reach them.
var limits = serving.Limits{
	Admission: serving.Size{Bytes: 10_000, Values: 601}, Conversion: serving.Size{Bytes: 10_000, Values: 100},
	SmallRequest: serving.Size{Bytes: 1000, Values: 61}, Small: 4, PerSource: 3, PerNamespace: 3, Bodies: 10_000, Answers: 64 << 20, Wait: 100 * time.Millisecond, Handle: 10 * time.Second,
}

// webhooks is a server with one handler for both kinds of path.
type webhooks struct {
	*serving.Server
	url       string
	authority *authority
	registry  *prometheus.Registry
}

// serve runs a server until the test ends.
func serve(t *testing.T, handler http.HandlerFunc, change ...func(*serving.Options)) *webhooks {
	t.Helper()
	w, stop, ended := start(t, handler, change...)
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return w
}

// start runs a server until it is stopped. ended then has the outcome.
func start(t *testing.T, handler http.HandlerFunc, change ...func(*serving.Options)) (w *webhooks, stop func(), ended chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	port, err := strconv.Atoi(testenv.FreePort(t))
	if err != nil {
		t.Fatal(err)
	}
	w = &webhooks{authority: newAuthority("server"), registry: prometheus.NewRegistry()}
	w.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	pair := w.authority.pair("server", x509.ExtKeyUsageServerAuth)
	certificate := &serving.Certificate{}
	certificate.Use(&pair)
	o := serving.Options{
		Host: "127.0.0.1", Port: port, Certificate: certificate, Limits: limits, Registry: w.registry, Clock: clock.RealClock{},
	}
	for _, c := range change {
		c(&o)
	}
	w.Server = serving.NewServer(o)
	w.Register(path, handler)
	w.Register(serving.ConversionPath, handler)
	ended = make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	testenv.Eventually(t, func() error { return w.Answers(t.Context()) })
	return w, stop, ended
}

// client returns a client, from another loopback address and with a certificate where they
// are given.
func (w *webhooks) client(from string, pair *tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(w.authority.certificate)
	dialer := &net.Dialer{}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	cfg := &tls.Config{RootCAs: pool}
	if pair != nil {
		// Without this, Go shows no certificate of an authority that the server did not ask for.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return &http.Client{Transport: &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: cfg,
		MaxIdleConnsPerHost: -1, // the client closes a connection after its answer, and like the API server does not say so before
	}}
}

// post sends a request and returns the answer's status and text.
func (w *webhooks) post(t *testing.T, c *http.Client, path string, body io.Reader) (status int, text string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }() // it is read to its end
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// refused is how many connections and requests were refused for a reason.
func (w *webhooks) refused(t *testing.T, reason string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "limpet_webhook_refusals_total" && m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric of refusals by %s", reason)
	return 0
}

func echo(w http.ResponseWriter, r *http.Request) {
	_, err := io.Copy(w, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// chunked hides the length of a body, as a client may.
type chunked struct{ io.Reader }

func TestRequestsAreBounded(t *testing.T) {
	w := serve(t, echo)
	array := func(n int) string { return `{"a":[` + strings.Repeat("{},", n-1) + `{}]}` }
	cases := map[string]struct {
		body       io.Reader
		wantStatus int
		wantReason string
	}{
		"a small body":                     {strings.NewReader(`{"a":1}`), 200, ""},
		"a large body":                     {strings.NewReader(strings.Repeat("a", 10_000)), 200, ""},
		"a body of unknown length":         {chunked{strings.NewReader(`{"a":1}`)}, 200, ""},
		"a body that is too large":         {strings.NewReader(strings.Repeat("a", 10_001)), 413, "body"},
		"one that does not say so":         {chunked{strings.NewReader(strings.Repeat("a", 10_001))}, 413, "body"},
		"a small body with many elements":  {strings.NewReader(array(100)), 200, ""},
		"a body with too many elements":    {strings.NewReader(array(101)), 413, "elements"},
		"a large one with as many":         {strings.NewReader(array(101) + strings.Repeat(" ", 2000)), 413, "elements"},
		"text that looks like an array":    {strings.NewReader(`{"a":"[` + strings.Repeat(",", 500) + `"}`), 200, ""},
		"a body without an end, in chunks": {chunked{endless{}}, 413, "body"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var want string
			if s, ok := tc.body.(*strings.Reader); ok {
				data, _ := io.ReadAll(s) // of a text
				want, tc.body = string(data), bytes.NewReader(data)
			}
			before := 0.0
			if tc.wantReason != "" {
				before = w.refused(t, tc.wantReason)
			}
			status, text, err := w.post(t, w.client("", nil), path, tc.body)
			if err != nil || status != tc.wantStatus {
				t.Fatalf("status %d, %v; want %d", status, err, tc.wantStatus)
			}
			if status == 200 && want != "" && text != want {
				t.Errorf("the handler read %d bytes, want %d", len(text), len(want))
			}
			if tc.wantReason != "" && w.refused(t, tc.wantReason) != before+1 {
				t.Errorf("refusals by %s: %v, want %v", tc.wantReason, w.refused(t, tc.wantReason), before+1)
			}
		})
	}
}

// A client that still sends its request gets the answer, not a connection that was reset: the API
// server would take that for a failed webhook, and let the request pass where the policy is Ignore.
func TestAnUnreadRequestIsAnswered(t *testing.T) {
	w := serve(t, echo)
	for range 50 {
		body := bytes.NewReader(make([]byte, 4<<20))
		if status, _, err := w.post(t, w.client("", nil), path, body); err != nil || status != http.StatusRequestEntityTooLarge {
			t.Fatalf("status %d, %v; want %d", status, err, http.StatusRequestEntityTooLarge)
		}
	}
}

// A client that does not send the end of its request gets no answer that says 200.
func TestARequestWithoutAnEndIsRefused(t *testing.T) {
	w := serve(t, echo)
	body, more := io.Pipe()
	defer func() { _ = more.Close() }() // of the test
	if status, _, err := w.post(t, w.client("", nil), path, body); err != nil || status != http.StatusRequestTimeout {
		t.Errorf("status %d, %v; want %d", status, err, http.StatusRequestTimeout)
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// Requests of 256 MiB from many addresses cost together less than one of them has. Memory is
// taken for the few bodies that are read at a time, up to the longest that is allowed.
func TestLongRequestsCostLittle(t *testing.T) {
	const length, clients = 256 << 20, 16
	w := serve(t, echo, func(o *serving.Options) { o.Limits = serving.DefaultLimits })
	send := func(i int) {
		path := []string{path, serving.ConversionPath}[i/2%2]
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, io.LimitReader(endless{}, length))
		if err != nil {
			t.Error(err)
			return
		}
		if i%2 == 0 {
			req.ContentLength = length // otherwise it is sent in chunks
		}
		resp, err := w.client(fmt.Sprintf("127.0.0.%d", 10+i), nil).Do(req)
		if err != nil { // the server closes the connection while the client still sends
			return
		}
		_ = resp.Body.Close() // its status is enough
		if !slices.Contains([]int{http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable, http.StatusRequestTimeout}, resp.StatusCode) {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	taken := memoryAtMost(func() {
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() { send(i) })
		}
		all.Wait()
	})
	if taken > length {
		t.Errorf("%d requests of 256 MiB took %d MiB at a time, want at most %d", clients, taken>>20, length>>20)
	}
	if n := w.refused(t, "body"); n < clients/2 {
		t.Errorf("%v requests were refused for their length, want those that told it", n)
	}
}

// A source whose requests hang leaves places to others; a request that finds no place is
// told to come again.
func TestASourceCannotTakeAllPlaces(t *testing.T) {
	held, free := make(chan struct{}, limits.Small), make(chan struct{})
	w := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if text, _ := io.ReadAll(r.Body); string(text) == "hang" {
			held <- struct{}{}
			<-free
		}
	})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(free)
	for range limits.PerSource {
		all.Go(func() { _, _, _ = w.post(t, w.client("127.0.0.2", nil), path, strings.NewReader("hang")) }) // it ends with the test
	}
	for range limits.PerSource {
		<-held
	}
	status, text, err := w.post(t, w.client("127.0.0.2", nil), path, strings.NewReader("once more"))
	if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(text, "too many requests") {
		t.Errorf("a source with hanging requests: %d %q, %v", status, text, err)
	}
	for range 3 {
		if status, _, err := w.post(t, w.client("127.0.0.3", nil), path, strings.NewReader("x")); err != nil || status != http.StatusOK {
			t.Errorf("another source: %d, %v", status, err)
		}
	}
	large := func() (int, error) {
		status, _, err := w.post(t, w.client("127.0.0.3", nil), path, strings.NewReader(strings.Repeat(" ", 2000)))
		return status, err
	}
	if status, err := large(); err != nil || status != http.StatusOK {
		t.Errorf("a large request: %d, %v", status, err)
	}
	if got := w.Oldest(time.Now().Add(time.Hour)); time.Since(got) > time.Minute || time.Since(got) < 0 {
		t.Errorf("the oldest request began at %s", got)
	}
}

// Only one large request is handled at a time, also when a short text hides it.
func TestLargeRequestsAreHandledOneByOne(t *testing.T) {
	held, free := make(chan struct{}), make(chan struct{})
	w := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if text, _ := io.ReadAll(r.Body); strings.HasPrefix(string(text), "hang") {
			held <- struct{}{}
			<-free
		}
	})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(free)
	all.Go(func() {
		_, _, _ = w.post(t, w.client("", nil), path, strings.NewReader("hang"+strings.Repeat(" ", 2000))) // it ends with the test
	})
	<-held
	for name, body := range map[string]io.Reader{
		"long":                      strings.NewReader(strings.Repeat(" ", 2000)),
		"short, with many elements": strings.NewReader("[" + strings.Repeat(",", 50) + "]"),
		"of unknown length":         chunked{strings.NewReader("x")},
	} {
		if status, _, err := w.post(t, w.client("", nil), path, body); err != nil || status != http.StatusServiceUnavailable {
			t.Errorf("a request that is %s: %d, %v; want 503", name, status, err)
		}
	}
	if status, _, err := w.post(t, w.client("", nil), path, strings.NewReader("x")); err != nil || status != http.StatusOK {
		t.Errorf("a small request: %d, %v", status, err)
	}
}

// Handlers get the time that they may take.
func TestHandlersHaveADeadline(t *testing.T) {
	w := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		http.Error(w, context.Cause(r.Context()).Error(), http.StatusOK)
	}, func(o *serving.Options) { o.Limits.Handle = 10 * time.Millisecond })
	if _, text, err := w.post(t, w.client("", nil), path, strings.NewReader("x")); err != nil || !strings.Contains(text, "deadline") {
		t.Errorf("answer %q, %v", text, err)
	}
}

func TestOnlyHoldersOfACertificateMayAsk(t *testing.T) {
	ours, others := newAuthority("clients"), newAuthority("others")
	file := ours.file(t)
	clients, err := serving.NewClients(file, []string{"kube-apiserver"})
	if err != nil {
		t.Fatal(err)
	}
	w := serve(t, echo, func(o *serving.Options) { o.Clients = clients })
	good := ours.pair("kube-apiserver", x509.ExtKeyUsageClientAuth)
	another := ours.pair("kubelet", x509.ExtKeyUsageClientAuth)
	server := ours.pair("kube-apiserver", x509.ExtKeyUsageServerAuth)
	foreign := others.pair("kube-apiserver", x509.ExtKeyUsageClientAuth)
	cases := map[string]struct {
		path       string
		pair       *tls.Certificate
		wantStatus int // 0: refused at the handshake
	}{
		"the API server":                              {path, &good, 200},
		"a client without a certificate":              {path, nil, 403},
		"another name":                                {path, &another, 403},
		"a certificate for servers":                   {path, &server, 0},
		"another authority":                           {path, &foreign, 0},
		"a path that does not exist":                  {"/none", nil, 403},
		"a conversion, for which there is none":       {serving.ConversionPath, nil, 200},
		"a conversion by another authority":           {serving.ConversionPath, &foreign, 0},
		"a path that only begins like the conversion": {serving.ConversionPath + "/../mutate-pod", nil, 403},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			status, _, err := w.post(t, w.client("", tc.pair), tc.path, strings.NewReader("x"))
			if status != tc.wantStatus || (err != nil) != (tc.wantStatus == 0) {
				t.Errorf("status %d, %v; want %d", status, err, tc.wantStatus)
			}
		})
	}
	t.Run("the authority is replaced", func(t *testing.T) {
		later := time.Now().Add(time.Minute)
		if err := errors.Join(os.WriteFile(file, others.pem, 0o600), os.Chtimes(file, later, later)); err != nil {
			t.Fatal(err)
		}
		if status, _, err := w.post(t, w.client("", &foreign), path, strings.NewReader("x")); err != nil || status != 200 {
			t.Errorf("the new authority: %d, %v", status, err)
		}
		if status, _, err := w.post(t, w.client("", &good), path, strings.NewReader("x")); err == nil {
			t.Errorf("the former authority: %d, want a failed handshake", status)
		}
	})
}

func TestAnAuthorityMustBeThere(t *testing.T) {
	empty := t.TempDir() + "/empty"
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, empty + "-not"} {
		if _, err := serving.NewClients(file, nil); err == nil {
			t.Errorf("%s is taken for an authority", file)
		}
	}
}

// Loopback is in every list of networks. The list itself is tested in internal/platform/endpoint.
func TestTheServerAnswersItself(t *testing.T) {
	w := serve(t, echo, func(o *serving.Options) {
		o.Networks = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
	if err := w.Answers(t.Context()); err != nil {
		t.Error(err)
	}
	silent := serving.NewServer(serving.Options{Certificate: &serving.Certificate{}, Registry: prometheus.NewRegistry(), Clock: clock.RealClock{}})
	if err := silent.Answers(t.Context()); err == nil {
		t.Error("a server that was not started answers")
	}
}

// laterClock runs ahead by as much as a test says.
type laterClock struct {
	clock.RealClock
	ahead atomic.Int64
}

func (c *laterClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

// A busy server must not be restarted: an answer to any client shows that it answers.
func TestAnAnswerToAClientIsASignOfLife(t *testing.T) {
	var certificate *serving.Certificate
	later := &laterClock{}
	w := serve(t, echo, func(o *serving.Options) { certificate, o.Clock = o.Certificate, later })
	if status, _, err := w.post(t, w.client("", nil), path, strings.NewReader("x")); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v", status, err)
	}
	certificate.Use(nil) // no handshake succeeds any more
	if err := w.Answers(t.Context()); err != nil {
		t.Errorf("after an answer: %v", err)
	}
	for _, step := range []time.Duration{time.Minute, -time.Minute} {
		later.ahead.Store(int64(step))
		if err := w.Answers(t.Context()); err == nil {
			t.Errorf("a server without an answer answers after the clock was set by %s", step)
		}
	}
}

// A request that is handled when the server is told to stop ends as if the server went on: its
// context does not end with the server's.
func TestARunningRequestOutlivesTheStopOfTheServer(t *testing.T) {
	held, free := make(chan struct{}), make(chan struct{})
	w, stop, ended := start(t, func(w http.ResponseWriter, r *http.Request) {
		close(held)
		<-free
		if err := r.Context().Err(); err != nil {
			http.Error(w, err.Error(), http.StatusTooManyRequests)
		}
	})
	answer := make(chan int, 1)
	go func() {
		status, _, _ := w.post(t, w.client("", nil), path, strings.NewReader("x")) // 0 without an answer
		answer <- status
	}()
	<-held
	stop()
	testenv.Eventually(t, func() error { // the server takes no further connection
		if _, _, err := w.post(t, w.client("", nil), path, strings.NewReader("y")); err == nil {
			return errors.New("the server still accepts connections")
		}
		return nil
	})
	close(free)
	if status := <-answer; status != http.StatusOK {
		t.Errorf("status %d, want 200", status)
	}
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// A handler learns by the deadline how long the API server still waits: since the request came, and
// not since its turn.
func TestTheTimeOfARequestBeginsWithItsArrival(t *testing.T) {
	deadlines := make(chan time.Time, 1)
	w := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		deadline, _ := r.Context().Deadline()
		deadlines <- deadline
	})
	begin := time.Now()
	if _, _, err := w.post(t, w.client("127.0.0.2", nil), path+"?timeout=2s", strings.NewReader("{}")); err != nil {
		t.Fatal(err)
	}
	if deadline, end := <-deadlines, time.Now(); deadline.Before(begin.Add(2*time.Second)) || deadline.After(end.Add(2*time.Second)) {
		t.Errorf("the deadline is %v after the question, want 2 s", deadline.Sub(begin))
	}
}
