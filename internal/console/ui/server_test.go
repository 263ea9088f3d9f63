package ui_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/console/board"
	"github.com/limpet-io/limpet/internal/console/ui"
	"github.com/limpet-io/limpet/internal/platform/endpoint"
	"github.com/limpet-io/limpet/internal/testenv"
)

const token = "a-token"

// serve starts the server of the page. end ends it as Ctrl-C does, and returns its error.
func serve(t *testing.T) (address string, end func() error) {
	t.Helper()
	listener, err := endpoint.Listen(t.Context(), "127.0.0.1:0", endpoint.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	look := func(context.Context) (board.Board, error) { return board.Board{Namespace: "shop"}, nil }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- ui.Serve(ctx, listener, ui.NewHub(look, clock.RealClock{}, 10*time.Millisecond), token)
	}()
	t.Cleanup(cancel)
	return listener.Addr().String(), func() error {
		cancel()
		return <-ended
	}
}

// request asks the server with headers; Host is among them.
func request(t *testing.T, address, method, path string, headers map[string]string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func TestWhoIsAnswered(t *testing.T) {
	address, _ := serve(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	bearer := "Bearer " + token
	tests := map[string]struct {
		method, path string
		headers      map[string]string
		want         int
	}{
		"the page":                            {"GET", "/", nil, 200},
		"its script":                          {"GET", "/page.js", nil, 200},
		"by the name localhost":               {"GET", "/", map[string]string{"Host": "localhost:" + port}, 200},
		"a name that was rebound to loopback": {"GET", "/", map[string]string{"Host": "evil.example:" + port}, 403},
		"another port":                        {"GET", "/", map[string]string{"Host": "127.0.0.1:1"}, 403},
		"rebound, with the token":             {"GET", "/live", map[string]string{"Host": "evil.example", "Authorization": bearer}, 403},
		"a write":                             {"POST", "/live", map[string]string{"Authorization": bearer}, 405},
		"a preflight of another page":         {"OPTIONS", "/live", map[string]string{"Origin": "http://evil.example"}, 405},
		"HEAD":                                {"HEAD", "/", nil, 405},
		"a file that is not there":            {"GET", "/../server.go", nil, 404},
		"a directory":                         {"GET", "/page", nil, 404},
		"data without the token":              {"GET", "/live", nil, 401},
		"data with another token":             {"GET", "/live", map[string]string{"Authorization": bearer + "x"}, 401},
		"data with the token in the address":  {"GET", "/live?token=" + token, nil, 401},
		"data for another page":               {"GET", "/live", map[string]string{"Authorization": bearer, "Sec-Fetch-Site": "cross-site"}, 403},
		"data":                                {"GET", "/live", map[string]string{"Authorization": bearer, "Sec-Fetch-Site": "same-origin"}, 200},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			answer := request(t, address, tc.method, tc.path, tc.headers)
			if answer.StatusCode != tc.want {
				t.Errorf("status %d, want %d", answer.StatusCode, tc.want)
			}
			policy := answer.Header.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
				if !strings.Contains(policy, want) {
					t.Errorf("the policy %q lacks %s", policy, want)
				}
			}
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin"} {
				if got := answer.Header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if got := answer.Header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("%s may read the answer", got)
			}
		})
	}
}

func TestTheStreamIsBoundedAndEnds(t *testing.T) {
	address, end := serve(t)
	live := func() *http.Response {
		return request(t, address, "GET", "/live", map[string]string{"Authorization": "Bearer " + token})
	}
	first := live()
	lines := bufio.NewScanner(first.Body)
	for _, want := range []string{"event: board", `"namespace":"shop"`, "", "event: same", `{"at":`} {
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("the stream says %q, want %q (%v)", lines.Text(), want, lines.Err())
		}
	}
	for range 7 {
		if answer := live(); answer.StatusCode != http.StatusOK {
			t.Fatalf("a page got status %d", answer.StatusCode)
		}
	}
	if answer := live(); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a page beyond the bound got status %d", answer.StatusCode)
	}
	if err := first.Body.Close(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if answer := live(); answer.StatusCode != http.StatusOK {
			return errors.New("the place of a closed page stays taken")
		}
		return nil
	})
	last := request(t, address, "GET", "/", nil)
	if _, err := io.ReadAll(last.Body); err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Errorf("the end with open pages: %v", err)
	}
	if _, err := new(net.Dialer).DialContext(t.Context(), "tcp", address); err == nil {
		t.Error("the server still listens")
	}
}

// TestStalledConnectionsDelayNoOther opens connections that ask for nothing, while a page is open.
func TestStalledConnectionsDelayNoOther(t *testing.T) {
	address, _ := serve(t)
	live := request(t, address, "GET", "/live", map[string]string{"Authorization": "Bearer " + token})
	for range 100 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	if answer := request(t, address, "GET", "/", nil); answer.StatusCode != http.StatusOK {
		t.Errorf("a newcomer got status %d", answer.StatusCode)
	}
	lines := bufio.NewScanner(live.Body)
	for range 20 { // the page that is open goes on
		if !lines.Scan() {
			t.Fatalf("the open page lost its stream: %v", lines.Err())
		}
	}
}

// TestThePageIsSmallAndPlain holds the page to its own files, without HTML made from text.
func TestThePageIsSmallAndPlain(t *testing.T) {
	lines := 0
	foreign := regexp.MustCompile(`(?i)https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|\son[a-z]+=|\sstyle=`)
	err := fs.WalkDir(os.DirFS("page"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile("page/" + path)
		lines += strings.Count(string(data), "\n")
		if found := foreign.FindString(string(data)); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		return err
	})
	if err != nil || lines < 100 || lines > 600 {
		t.Errorf("the page has %d lines, want at most 600 (%v)", lines, err)
	}
}
