package testenv

import (
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Webhooks are the webhook configurations of one manifest.
type Webhooks struct {
	Mutating   *admissionv1.MutatingWebhookConfiguration
	Validating *admissionv1.ValidatingWebhookConfiguration
}

// ReadWebhooks reads deploy/controller/webhooks.yaml, and gives each webhook ten seconds: machines that test are busy, and
// the requests of many would pass without an answer.
func ReadWebhooks(t testing.TB) Webhooks {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(root, "deploy", "controller", "webhooks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	w := Webhooks{&admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}}
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	if err := errors.Join(decoder.Decode(w.Mutating), decoder.Decode(w.Validating)); err != nil {
		t.Fatalf("decode %s: %v", file.Name(), err)
	}
	if err := decoder.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		t.Fatalf("%s has a third document", file.Name())
	}
	for i := range w.Mutating.Webhooks {
		w.Mutating.Webhooks[i].TimeoutSeconds = new(int32(10))
	}
	for i := range w.Validating.Webhooks {
		w.Validating.Webhooks[i].TimeoutSeconds = new(int32(10))
	}
	return w
}

// ServeWebhooks installs webhook configurations until the test ends. serve returns the
// handler of each webhook, by its name.
func (e *Env) ServeWebhooks(t testing.TB, w Webhooks, serve func(webhook string) http.Handler) {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	redirect := func(name string, c *admissionv1.WebhookClientConfig) {
		mux.Handle("/"+name, serve(name))
		*c = admissionv1.WebhookClientConfig{URL: new(server.URL + "/" + name), CABundle: authority}
	}
	for i := range w.Mutating.Webhooks {
		redirect(w.Mutating.Webhooks[i].Name, &w.Mutating.Webhooks[i].ClientConfig)
	}
	for i := range w.Validating.Webhooks {
		redirect(w.Validating.Webhooks[i].Name, &w.Validating.Webhooks[i].ClientConfig)
	}
	for _, o := range []client.Object{w.Mutating, w.Validating} {
		e.Create(t, o)
	}
}
