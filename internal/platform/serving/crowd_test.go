package serving_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/platform/serving"
)

// hold opens connections from an address until the test ends, and sends each a beginning.
// The server may close some of them meanwhile.
func (w *webhooks) hold(t *testing.T, from string, n int, beginning string) {
	t.Helper()
	for range n {
		d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		raw, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = raw.Close() }) // the server may have closed it
		if beginning == "" {
			continue
		}
		c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
		if _, err := fmt.Fprint(c, beginning+"\r\nExpect: 100-continue\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 12) // the server asks for the body when it begins to read it
		if _, err := io.ReadFull(c, answer); err != nil || !strings.HasSuffix(string(answer), "100") {
			t.Fatalf("answer %q, %v; want that the body is read", answer, err)
		}
	}
}

// without is the beginning of a request whose body never comes.
func without(length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d", serving.ConversionPath, length)
}

// Clients that take whatever they can get keep out no client with another address.
func TestClientsThatSendNothingKeepNobodyOut(t *testing.T) {
	type held struct {
		from      string
		n         int
		beginning string
	}
	cases := map[string]struct {
		limits serving.Limits
		held   []held
		body   int
	}{
		"as many small requests as have places": {
			serving.DefaultLimits, []held{{"127.0.0.2", 72, without(100)}, {"127.0.0.3", 24, without(100)}}, 100,
		},
		"as many small requests as have room": {limits, []held{{"127.0.0.2", 6, without(1000)}, {"127.0.0.3", 4, without(1000)}}, 1000},
		"a large request":                     {serving.DefaultLimits, []held{{"127.0.0.2", 1, without(200_000)}}, 200_000},
		"large requests of many addresses": {limits, []held{
			{"127.0.0.2", 1, without(2000)}, {"127.0.0.3", 1, without(2000)}, {"127.0.0.4", 1, without(2000)}, {"127.0.0.5", 1, without(2000)},
		}, 2000},
		"all connections": {serving.DefaultLimits, []held{{"127.0.0.2", 1024, ""}, {"127.0.0.3", 1024, ""}}, 100},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := serve(t, echo, func(o *serving.Options) { o.Limits = tc.limits })
			for _, h := range tc.held {
				w.hold(t, h.from, h.n, h.beginning)
			}
			body := strings.Repeat(" ", tc.body)
			if status, text, err := w.post(t, w.client("127.0.0.6", nil), path, strings.NewReader(body)); status != http.StatusOK || err != nil {
				t.Errorf("another address: %d %q, %v", status, text, err)
			}
			if err := w.Answers(t.Context()); err != nil {
				t.Errorf("the server does not answer itself: %v", err)
			}
		})
	}
}

// A client that does not read its answer has no place.
func TestClientsThatReadNoAnswerKeepNobodyOut(t *testing.T) {
	w := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if text, _ := io.ReadAll(r.Body); string(text) == "long" {
			_, _ = w.Write(make([]byte, 16<<20)) // more than the buffers of a connection
		}
	})
	for i := range limits.Small {
		d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%2))}}
		raw, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = raw.Close() }) // its answer was not read
		c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nlong", path); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 12)); err != nil { // the answer begins
			t.Fatal(err)
		}
	}
	if status, text, err := w.post(t, w.client("127.0.0.6", nil), path, strings.NewReader("x")); status != http.StatusOK || err != nil {
		t.Errorf("another address: %d %q, %v", status, text, err)
	}
}
