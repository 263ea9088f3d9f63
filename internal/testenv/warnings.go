package testenv

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Listen returns a client, and what the API server warns the client of.
func (e *Env) Listen(t testing.TB) (client.Client, *Warnings) {
	t.Helper()
	config := rest.CopyConfig(e.Config)
	heard := &Warnings{}
	config.WarningHandler = heard
	c, err := client.New(config, client.Options{Scheme: e.Scheme, Mapper: e.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c, heard
}

// Warnings collects the warnings that an API server answers with.
type Warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader adds a warning.
func (w *Warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// Names returns an error where no warning since the last call names a word.
func (w *Warnings) Names(word string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := strings.Join(w.texts, "; ")
	w.texts = nil
	if !strings.Contains(texts, word) {
		return fmt.Errorf("warnings %q do not name %s", texts, word)
	}
	return nil
}
