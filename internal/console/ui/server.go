// Package ui serves the page of `kubectl limpet ui` on loopback. The page reads and changes nothing.
// Other users of the machine, and other web pages in the same browser, get nothing but the empty page.
package ui

import (
	"context"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/limpet-io/limpet/internal/platform/endpoint"
)

//go:embed page
var files embed.FS

// types are the media types of the files. Those of the machine may be others.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
}

const (
	requestTimeout = 5 * time.Second
	writeTimeout   = 30 * time.Second // of one piece of an answer
	endTimeout     = 5 * time.Second
)

// policy lets the page load its own files alone, and forbids to make HTML of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// server serves the page. Its data need the token.
type server struct {
	hub   *Hub
	token string
	hosts []string
}

// Serve answers on a listener until the context ends. It looks at the cluster meanwhile.
func Serve(ctx context.Context, listener net.Listener, hub *Hub, token string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return fmt.Errorf("read the address of the page: %w", err)
	}
	s := &server{hub: hub, token: token, hosts: []string{"127.0.0.1:" + port, "localhost:" + port}}
	server := endpoint.NewServer(ctx, s, requestTimeout, writeTimeout, logr.Discard())
	looked, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(looked)
		hub.Run(ctx)
	}()
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
		err = fmt.Errorf("serve the page: %w", err)
	case <-ctx.Done():
		err = stop(ctx, server)
	}
	cancel()
	<-looked
	return err
}

// stop ends the server. Streams end by their context.
func stop(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("end the server of the page: %w", err), server.Close())
	}
	return nil
}

// Address is the address of the page with its token. A browser does not send the part behind the hash mark to any
// server, and the page removes it from the history.
func Address(listener net.Listener, token string) string {
	return "http://" + listener.Addr().String() + "/#" + token
}

// ServeHTTP answers reads that name this server as their host. A name of an attacker that resolves to loopback is another.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		w.Header().Set(name, value)
	}
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		w.Header().Set("Connection", "close") // what the client sends is not read
		http.Error(w, "only GET is answered here", http.StatusMethodNotAllowed)
	case !slices.Contains(s.hosts, r.Host):
		http.Error(w, "this server has another name", http.StatusForbidden)
	case r.URL.Path == "/live":
		s.live(w, r)
	default:
		file(w, r)
	}
}

// file answers with a file of the page.
func file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	data, err := files.ReadFile(path.Join("page", path.Clean("/"+name)))
	if err != nil {
		http.Error(w, "the page has no such file", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", types[path.Ext(name)])
	_, _ = w.Write(data) // no one is told that a client left
}

// live streams boards to a page that shows the token.
func (s *server) live(w http.ResponseWriter, r *http.Request) {
	shown := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	from := r.Header.Get("Sec-Fetch-Site")
	switch {
	case subtle.ConstantTimeCompare([]byte(shown), []byte(s.token)) != 1:
		http.Error(w, "the token is missing or wrong: open the address that the command printed", http.StatusUnauthorized)
	case from != "" && from != "same-origin":
		http.Error(w, "another page may not read this one", http.StatusForbidden)
	case !s.hub.open():
		http.Error(w, fmt.Sprintf("%d pages are open: close one", mostPages), http.StatusServiceUnavailable)
	default:
		defer s.hub.close()
		endpoint.ConnectionOf(r.Context()).Stay()
		s.stream(w, r)
	}
}

// stream writes what is found until the client leaves.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	if out.SetReadDeadline(time.Time{}) != nil || out.Flush() != nil {
		return
	}
	for seen := 0; ; {
		latest, changed := s.hub.now()
		for _, event := range latest.since(seen) {
			if out.SetWriteDeadline(s.hub.clock.Now().Add(writeTimeout)) != nil {
				return
			}
			if _, err := w.Write(event); err != nil {
				return
			}
		}
		if out.Flush() != nil {
			return
		}
		seen = latest.version
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// since returns the events for a page that has seen a version.
func (n found) since(seen int) [][]byte {
	var events [][]byte
	at, _ := json.Marshal(n.at) // a time of this century can be written
	switch {
	case n.version != seen:
		events = append(events, slices.Concat([]byte("event: board\ndata: {\"at\":"), at, []byte(",\"board\":"), n.board, []byte("}\n\n")))
	case n.version > 0 && n.trouble == "":
		events = append(events, slices.Concat([]byte("event: same\ndata: {\"at\":"), at, []byte("}\n\n")))
	}
	if n.trouble != "" {
		text, _ := json.Marshal(map[string]string{"text": n.trouble}) // a string can be written
		events = append(events, slices.Concat([]byte("event: trouble\ndata: "), text, []byte("\n\n")))
	}
	return events
}
