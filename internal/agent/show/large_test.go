package show_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// answerWith answers a list of IPReservations with a text that is written meanwhile.
func answerWith(write func(io.Writer)) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/ipreservations") || r.URL.Query().Get("watch") != "" {
			return nil
		}
		from, to := io.Pipe()
		go func() {
			write(to)
			_ = to.Close() // never an error
		}()
		answer := respond(r, http.StatusOK, http.Header{"Content-Type": {"application/json"}}, "")
		answer.Body = from
		return answer
	}
}

// TestAListOfLargeObjectsCostsLittle has 24 objects with the label of the node, each of 1 MiB. The agent has 128 MiB.
func TestAListOfLargeObjectsCostsLittle(t *testing.T) {
	const objects, longest = 12, 6 << 20
	ns, b := env.Namespace(t), newBed(t, "large", show.Pace{})
	text := strings.Repeat("x", 340<<10)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var most atomic.Uint64
	b.answers(answerWith(func(w io.Writer) {
		_, _ = io.WriteString(w, `{"apiVersion":"limpet.dev/v1alpha1","kind":"IPReservationList","metadata":{"resourceVersion":"1"},"items":[`)
		for i := range objects {
			_, _ = fmt.Fprintf(w, `%s{"metadata":{"name":"fat-%d","namespace":%q,"labels":{"a":"%s"},"annotations":{"a":"%s"},"managedFields":[{"manager":"%s"}]},`+
				`"status":{"node":"large","network":"net","interface":"eth0","pod":"fat","ips":"10.0.0.1","state":"Attached"}}`, strings.Repeat(",", min(i, 1)), i, ns, text, text, text)
			if i%4 == 3 {
				most.Store(max(most.Load(), heap()))
			}
		}
		_, _ = io.WriteString(w, `]}`)
	}))
	b.attach(ns, "web-0")
	_ = b.show(t) // the objects are deleted, which the server does not have
	if took := most.Load() - min(before, most.Load()); most.Load() == 0 || took > longest {
		t.Errorf("a list of %d MiB takes %d MiB", objects, took>>20)
	}
	b.apiShows(t, map[string]v1alpha1.IPState{ns + " web-0": v1alpha1.IPAttached})
}

// TestAListThatIsCutOffIsNone cuts the connection within a list. What was not read does not count as missing.
func TestAListThatIsCutOffIsNone(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "cut", show.Pace{})
	for _, text := range []string{``, `{`, `{"metadata":{"resourceVersion":"1"},"items":[`, `{"metadata":{"resourceVersion":"1"},"items":[]`, `[]`, `{"items":[{"metadata":7}]}`} {
		b.answers(answerWith(func(w io.Writer) { _, _ = io.WriteString(w, text) }))
		b.attach(ns, "web-0")
		if err := b.show(t); err == nil || !strings.Contains(err.Error(), "decode list") {
			t.Errorf("of the list %q: %v, want that it cannot be read", text, err)
		}
		b.clock.Step(show.DefaultPace().Reconnect * 2) // the loop backs off
	}
}
