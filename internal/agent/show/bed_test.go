package show_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, v1alpha1.AddToScheme, apiextensionsv1.AddToScheme))
}

// bed is a loop with a clock that the test moves, and counts its requests.
type bed struct {
	*show.Loop
	node    string
	clock   *clocktesting.FakeClock
	network plan.Network
	stop    func() // ends the loop

	mu       sync.Mutex
	requests []string // method and resource
	logged   []string
	offers   int           // made
	shown    int           // offers that a finished pass knew
	err      error         // of the last pass
	passed   chan struct{} // receives when a pass has finished
	answer   func(*http.Request) *http.Response
}

// newBed runs a loop until the test ends.
func newBed(t *testing.T, node string, pace show.Pace) *bed {
	t.Helper()
	for _, list := range []client.ObjectList{&v1alpha1.IPReservationList{}, &v1alpha1.NodeIPPoolList{}} {
		testenv.Eventually(t, func() error { // a server that has just started has no list in its memory
			return env.Client.List(t.Context(), list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
		})
	}
	b := &bed{node: node, clock: clocktesting.NewFakeClock(time.Now()), network: plan.Network{Name: "net"}, passed: make(chan struct{}, 1)}
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return through{b, next} })
	var err error
	b.Loop, err = show.New(show.Config{
		Node: node, REST: config, Pace: pace, Clock: b.clock, Random: func() float64 { return 0.5 }, Log: funcr.New(b.log(t), funcr.Options{}), Around: b.around,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	b.stop = func() {
		stop()
		<-done
	}
	t.Cleanup(b.stop)
	return b
}

func (b *bed) log(t *testing.T) func(prefix, line string) {
	return func(_, line string) {
		t.Log(line)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.logged = append(b.logged, line)
	}
}

// loggedOf returns the lines of the log with a text.
func (b *bed) loggedOf(text string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var of []string
	for _, line := range b.logged {
		if strings.Contains(line, text) {
			of = append(of, line)
		}
	}
	return of
}

// through counts requests, and answers some of them in place of the server.
type through struct {
	*bed
	next http.RoundTripper
}

func (h through) RoundTrip(r *http.Request) (*http.Response, error) {
	parts := strings.Split(r.URL.Path, "/")
	resource := parts[len(parts)-1]
	for _, p := range parts {
		switch p {
		case "ipreservations", "nodeippools", "nodes":
			resource = p
		}
	}
	verb := r.Method
	if r.URL.Query().Get("watch") != "" {
		verb = "WATCH"
		if resource != "nodes" && resource != "ipreservations" {
			resource = "namespaces"
		}
	}
	h.mu.Lock()
	h.requests = append(h.requests, verb+" "+resource)
	answer := h.answer
	h.mu.Unlock()
	if answer != nil {
		if given := answer(r); given != nil {
			return given, nil
		}
	}
	return h.next.RoundTrip(r)
}

func (b *bed) around(_ context.Context, pass func() error) {
	b.mu.Lock()
	knows := b.offers
	b.mu.Unlock()
	err := pass()
	b.mu.Lock()
	b.shown, b.err = knows, err
	b.mu.Unlock()
	select {
	case b.passed <- struct{}{}:
	default: // the test has not seen the one before
	}
}

// since returns the requests since the last call, but watches of the Node.
func (b *bed) since() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := map[string]int{}
	for _, r := range b.requests {
		if r != "WATCH nodes" {
			count[r]++
		}
	}
	b.requests = nil
	return count
}

func (b *bed) answers(with func(*http.Request) *http.Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = with
}

// show offers the state of the node as of now, as the agent does, and waits for a pass that knows it.
func (b *bed) show(t *testing.T) error {
	t.Helper()
	b.mu.Lock()
	b.offers++
	offer := b.offers
	b.Offer(plan.Mirror(b.node, []plan.Network{b.network}, b.moment()))
	b.mu.Unlock()
	deadline := time.After(time.Minute)
	for {
		b.mu.Lock()
		shown, err := b.shown, b.err
		b.mu.Unlock()
		if shown >= offer {
			return err
		}
		select {
		case <-b.passed:
		case <-deadline:
			t.Fatalf("no pass knows offer %d, the last one knows %d", offer, shown)
		}
	}
}

// passTime moves the clock in steps of the agent's rounds.
func (b *bed) passTime(t *testing.T, d time.Duration) {
	t.Helper()
	b.passTimeBy(t, 5*time.Second, d)
}

// passTimeBy is passTime with the time between two rounds.
func (b *bed) passTimeBy(t *testing.T, step, d time.Duration) {
	t.Helper()
	for ; d > 0; d -= step {
		b.clock.Step(min(d, step))
		_ = b.show(t) // the test looks at the requests
	}
}

func (b *bed) moment() reservation.Moment {
	now := b.clock.Now()
	return reservation.Moment{Wall: now, BootID: "boot", Up: time.Duration(now.UnixNano())}
}

// attach adds an attached pod that asks for 10 minutes.
func (b *bed) attach(ns, pod string) {
	b.network.Attachments = append(b.network.Attachments, reservation.Attachment{
		ID:    reservation.AttachmentID{Network: "net", ContainerID: ns + pod, IfName: "eth0"},
		Owner: reservation.Owner{Network: "net", Namespace: ns, Pod: pod, IfName: "eth0"}, UID: "u-" + pod,
		Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2")}, Retain: 10 * time.Minute, Since: b.moment(),
	})
}

// reserve adds a reservation that begins now.
func (b *bed) reserve(ns, pod string, length time.Duration) {
	b.network.Reservations = append(b.network.Reservations, reservation.Reservation{
		Owner: reservation.Owner{Network: "net", Namespace: ns, Pod: pod, IfName: "eth0"}, UID: "u-" + pod,
		Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2")}, Retain: length,
		Deadline: reservation.Deadline{From: b.moment(), For: length},
	})
}

// end turns all attachments into reservations.
func (b *bed) end() {
	for _, a := range b.network.Attachments {
		b.reserve(a.Owner.Namespace, a.Owner.Pod, a.Retain)
		b.network.Reservations[len(b.network.Reservations)-1].UID = a.UID
	}
	b.network.Attachments = nil
}

// apiShows waits until the IPReservations of the node are exactly these pods. Passes go on meanwhile.
func (b *bed) apiShows(t *testing.T, want map[string]v1alpha1.IPState) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var list v1alpha1.IPReservationList
		if err := env.Client.List(t.Context(), &list, client.MatchingLabels{v1alpha1.LabelNode: b.node}); err != nil {
			return err
		}
		got := map[string]v1alpha1.IPState{}
		for _, r := range list.Items {
			got[r.Namespace+" "+r.Status.Pod] = r.Status.State
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("IPReservations (-want +got):\n%s", diff)
		}
		return nil
	})
}

// asks waits for a request, which another goroutine than that of the passes may send.
func (b *bed) asks(t *testing.T, request string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !slices.Contains(b.requests, request) {
			return fmt.Errorf("requests %v lack %s", b.requests, request)
		}
		return nil
	})
}

// wants compares the requests since the last call.
func (b *bed) wants(t *testing.T, what string, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, b.since()); diff != "" {
		t.Errorf("requests %s (-want +got):\n%s", what, diff)
	}
}
