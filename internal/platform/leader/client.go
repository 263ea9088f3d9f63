package leader

import (
	"context"
	"net/http"
)

// HTTPClient returns an HTTP client whose writes wait, by a function that returns once this replica
// leads. Reads do not wait.
func HTTPClient(c *http.Client, wait func(context.Context) error) *http.Client {
	fenced := *c
	if fenced.Transport == nil {
		fenced.Transport = http.DefaultTransport
	}
	fenced.Transport = fence{fenced.Transport, wait}
	return &fenced
}

type fence struct {
	http.RoundTripper
	wait func(context.Context) error
}

// RoundTrip sends a request.
func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := f.wait(r.Context()); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // as a RoundTripper must
			}
			return nil, err
		}
	}
	return f.RoundTripper.RoundTrip(r)
}
