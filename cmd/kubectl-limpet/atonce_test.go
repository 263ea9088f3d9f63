package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestARefusedEvictionIsAnsweredAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "10")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	for path, want := range map[string]string{
		"/api/v1/namespaces/shop/pods/web-0/eviction": "",
		"/api/v1/namespaces/shop/pods/web-0":          "10", // the API server has too much to do
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := atOnce{http.DefaultTransport}.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.Header.Get("Retry-After"); resp.StatusCode != http.StatusTooManyRequests || got != want {
			t.Errorf("%s: status %d, Retry-After %q, want %q", path, resp.StatusCode, got, want)
		}
	}
}
