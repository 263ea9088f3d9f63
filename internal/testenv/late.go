package testenv

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"testing"
	"time"
)

// LateVar is the environment variable that makes half of all watches late, each by a time of its own below the value, as
// 700ms. Tests fail then that expect a cache of one kind to know what another one knows.
const LateVar = "LIMPET_LATE"

// Late has the watches of a resource, as pods, be late in the managers and caches that are started until the test ends.
func (e *Env) Late(t testing.TB, resource string, by time.Duration) {
	t.Helper()
	e.late.Store(resource, by)
	t.Cleanup(func() { e.late.Delete(resource) })
}

// lateWatches passes requests on, and makes the watches among them late.
type lateWatches struct {
	http.RoundTripper
	env *Env
}

// RoundTrip passes a request on.
func (l lateWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil || r.URL.Query().Get("watch") == "" {
		return resp, err //nolint:wrapcheck // of another transport
	}
	resource := path.Base(r.URL.Path)
	by, _ := l.env.late.Load(resource)
	late, _ := by.(time.Duration)
	most, err := time.ParseDuration(os.Getenv(LateVar)) //nolint:forbidigo // tests of all packages run with it
	if err == nil && rand.IntN(2) == 0 {
		late = rand.N(most)
		fmt.Fprintln(os.Stderr, "late:", resource, late)
	}
	if late > 0 {
		resp.Body = newLateBody(resp.Body, late)
	}
	return resp, nil
}

// lateBody passes each piece some time after it came.
type lateBody struct {
	io.ReadCloser
	pieces chan latePiece
	rest   latePiece
}

type latePiece struct {
	due  <-chan time.Time
	text []byte
	err  error
}

func newLateBody(of io.ReadCloser, by time.Duration) *lateBody {
	b := &lateBody{ReadCloser: of, pieces: make(chan latePiece, 10_000)}
	go func() {
		for {
			text := make([]byte, 64<<10)
			n, err := of.Read(text)
			b.pieces <- latePiece{time.NewTimer(by).C, text[:n], err}
			if err != nil {
				return
			}
		}
	}()
	return b
}

// Read waits until the next piece is due.
func (b *lateBody) Read(into []byte) (int, error) {
	if len(b.rest.text) == 0 && b.rest.err == nil {
		b.rest = <-b.pieces
		if b.rest.err == nil {
			<-b.rest.due
		}
	}
	n := copy(into, b.rest.text)
	if b.rest.text = b.rest.text[n:]; len(b.rest.text) > 0 {
		return n, nil
	}
	return n, b.rest.err
}
