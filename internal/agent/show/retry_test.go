package show_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// respond returns an answer of the API server.
func respond(r *http.Request, code int, header http.Header, body string) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

// forbidden answers as a quota does.
func forbidden(r *http.Request) *http.Response {
	return respond(r, http.StatusForbidden, http.Header{"Content-Type": {"application/json"}},
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"exceeded quota"}`)
}

// TestARefusedObjectWaitsAlone refuses the objects of one namespace for good. The others are shown at once, no
// refusal causes a list, and the refused ones are tried ever more rarely.
func TestARefusedObjectWaitsAlone(t *testing.T) {
	ns, quota, b := env.Namespace(t), env.Namespace(t), newBed(t, "refused", show.Pace{})
	b.answers(func(r *http.Request) *http.Response {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/"+quota+"/") {
			return forbidden(r)
		}
		return nil
	})
	b.attach(quota, "a-0")
	b.attach(ns, "web-0")
	if err := b.show(t); err == nil || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("a refused object: %v, want the refusal", err)
	}
	b.attach(ns, "web-1")
	_ = b.show(t) // the refusal stands
	b.apiShows(t, map[string]v1alpha1.IPState{ns + " web-0": v1alpha1.IPAttached, ns + " web-1": v1alpha1.IPAttached})
	b.wants(t, "at first", map[string]int{
		"GET ipreservations": 1, "GET nodeippools": 1, "POST ipreservations": 3, "POST nodeippools": 1, "PUT nodeippools": 1,
	})
	b.passTime(t, 50*time.Minute)
	if got := b.since(); len(got) != 1 || got["POST ipreservations"] < 5 || got["POST ipreservations"] > 16 {
		t.Errorf("requests of 50 minutes: %v, want 5 to 16 attempts and nothing else", got)
	}
	b.answers(nil)
	b.passTime(t, 10*time.Minute)
	b.apiShows(t, map[string]v1alpha1.IPState{
		ns + " web-0": v1alpha1.IPAttached, ns + " web-1": v1alpha1.IPAttached, quota + " a-0": v1alpha1.IPAttached,
	})
	if err := b.show(t); err != nil {
		t.Errorf("after the quota was raised: %v", err)
	}
}

// TestABusyServerIsObeyed answers with 429 and Retry-After. Nothing is sent before the time has come.
func TestABusyServerIsObeyed(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "busy", show.Pace{})
	b.attach(ns, "web-0")
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	b.since()
	b.answers(func(r *http.Request) *http.Response {
		return respond(r, http.StatusTooManyRequests, http.Header{"Retry-After": {"40"}, "Content-Type": {"text/plain"}}, "Too many requests")
	})
	b.end()
	for i := range 5 {
		b.attach(ns, fmt.Sprint("other-", i))
	}
	if err := b.show(t); err == nil {
		t.Error("a busy server is no error of the step")
	}
	b.passTime(t, 40*time.Second)
	b.wants(t, "within Retry-After", map[string]int{"PUT nodeippools": 1})
	b.answers(nil)
	b.passTime(t, 5*time.Second)
	got := b.since()
	if got["PUT ipreservations"] != 1 || got["POST ipreservations"] != 5 || got["GET ipreservations"] != 0 {
		t.Errorf("requests after Retry-After: %v, want the six changes and no list", got)
	}
}

// TestAnOutageCostsNoList takes the server away for ten minutes. A node without changes asks for nothing then, and
// afterwards.
func TestAnOutageCostsNoList(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "outage", show.Pace{})
	b.attach(ns, "web-0")
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	b.since()
	b.answers(func(r *http.Request) *http.Response {
		return respond(r, http.StatusServiceUnavailable, http.Header{}, "")
	})
	b.passTime(t, 10*time.Minute)
	b.wants(t, "without changes", map[string]int{})
	b.end()
	b.passTime(t, 5*time.Minute)
	if got := b.since()["PUT nodeippools"]; got < 6 || got > 14 { // the pool is written first
		t.Errorf("%d attempts in five minutes, want about one in 45 s after the first", got)
	}
	b.answers(nil)
	b.passTime(t, time.Minute)
	b.apiShows(t, map[string]v1alpha1.IPState{ns + " web-0": v1alpha1.IPReserved})
	got := b.since()
	delete(got, "WATCH namespaces")
	if got["GET ipreservations"]+got["GET nodeippools"] != 0 {
		t.Errorf("requests after the outage: %v, want no list", got)
	}
}

// TestThousandsOfChangesArePaced lets 2 000 reservations of a tenant come at once, and others in their place
// each second. The objects of another namespace are written with the first, and no more than 100 in 5 s.
func TestThousandsOfChangesArePaced(t *testing.T) {
	ns, tenant, b := env.Namespace(t), env.Namespace(t), newBed(t, "churn", show.Pace{})
	b.answers(func(r *http.Request) *http.Response { // the server need not store them
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/"+tenant+"/") {
			return respond(r, http.StatusCreated, http.Header{"Content-Type": {"application/json"}},
				`{"kind":"IPReservation","apiVersion":"limpet.dev/v1alpha1","metadata":{"name":"x","namespace":"`+tenant+`","resourceVersion":"1"}}`)
		}
		return nil
	})
	for second := range 20 {
		b.network.Reservations = nil
		for i := range 2000 {
			b.reserve(tenant, fmt.Sprint("job-", second, "-", i), time.Hour)
		}
		b.reserve(ns, "web-0", time.Hour)
		b.clock.Step(time.Second)
		_ = b.show(t) // deletions of what the server does not have are refused
	}
	b.apiShows(t, map[string]v1alpha1.IPState{ns + " web-0": v1alpha1.IPReserved})
	got := b.since()
	if writes := got["POST ipreservations"] + got["DELETE ipreservations"] + got["PUT ipreservations"] + got["POST nodeippools"]; writes < 300 || writes > 500 {
		t.Errorf("%d writes in 20 s, want at most 100 in 5 s: %v", writes, got)
	}
}

// TestTenThousandRefusedObjectsAreTriedSlowly refuses so many objects of one namespace, for good.
func TestTenThousandRefusedObjectsAreTriedSlowly(t *testing.T) {
	b := newBed(t, "many-refused", show.Pace{})
	b.answers(func(r *http.Request) *http.Response {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/ipreservations") {
			return forbidden(r)
		}
		return nil
	})
	for i := range 10_000 {
		b.attach("tenant", fmt.Sprint("job-", i))
	}
	b.passTimeBy(t, 20*time.Second, 20*time.Minute)
	b.since()
	b.passTimeBy(t, 20*time.Second, 5*time.Minute)
	if got := b.since()["POST ipreservations"]; got == 0 || got > 1500 {
		t.Errorf("%d attempts in five minutes, want some, and at most five a second", got)
	}
}

// TestAnObjectThatIsThereAlreadyIsTakenOver creates an object whose label hides it from the list.
func TestAnObjectThatIsThereAlreadyIsTakenOver(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "hidden", show.Pace{})
	env.Create(t, &v1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-0.eth0.net.hidden"},
		Status:     v1alpha1.IPReservationStatus{Node: "hidden", Network: "net", Interface: "eth0", Pod: "other", IPs: "10.9.9.9", State: v1alpha1.IPReserved},
	})
	b.attach(ns, "web-0")
	_ = b.show(t) // the object is only read again
	b.passTime(t, 5*time.Second)
	b.apiShows(t, map[string]v1alpha1.IPState{ns + " web-0": v1alpha1.IPAttached})
	got := b.since()
	if got["POST ipreservations"] != 1 || got["PUT ipreservations"] != 1 || got["GET ipreservations"] != 2 {
		t.Errorf("requests: %v, want one list, one attempt, one read and one update", got)
	}
}
