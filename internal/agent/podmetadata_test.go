package agent_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// wire records what the API server answers about pods.
type wire struct {
	mu   sync.Mutex
	pods bytes.Buffer
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods.Write(p)
}

func (w *wire) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods.String()
}

// recorded passes requests on, and records the answers about pods.
type recorded struct {
	http.RoundTripper
	to *wire
}

func (r recorded) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.RoundTripper.RoundTrip(request)
	if err == nil && strings.HasSuffix(request.URL.Path, "/pods") {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(answer.Body, r.to), answer.Body}
	}
	return answer, err
}

// TestTheAPIServerSendsMetadataOfPodsOnly follows a pod whose environment has a secret, by list and by watch.
func TestTheAPIServerSendsMetadataOfPodsOnly(t *testing.T) {
	ns, n, w := env.Namespace(t), newNode(t, "metadata"), &wire{}
	n.REST.Wrap(func(to http.RoundTripper) http.RoundTripper { return recorded{to, w} })
	pod := testenv.APod("web-0").In(ns).On(n.Node).With(reservation.RetainAnnotation, "20")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: "a-secret-value"}}
	env.Create(t, pod.Pod)
	n.attach(t, ns, "web-0", string(pod.UID), n.liveNetNS(), 0, func(a *reservation.Attachment) { a.Retain = time.Minute })
	n.start(t)
	n.stateIs(t, map[string]string{"web-0": "attached, retain 20m0s"})
	env.Annotate(t, pod.Pod, reservation.RetainAnnotation, "30")
	n.stateIs(t, map[string]string{"web-0": "attached, retain 30m0s"})
	if text := w.text(); !strings.Contains(text, "web-0") || strings.Contains(text, "a-secret-value") {
		t.Errorf("the API server sent %d bytes about pods, with the name: %t, with the environment: %t",
			len(text), strings.Contains(text, "web-0"), strings.Contains(text, "a-secret-value"))
	}
}
