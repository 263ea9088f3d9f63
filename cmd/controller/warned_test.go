package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// leftOut makes PersistentPodStates where no pod is ever sent to the webhook.
func leftOut(t *testing.T) {
	c, heard := listen(t)
	for _, ns := range pin.LeftOut() {
		heard.reset()
		state := testenv.APersistentPodState("left-out").In(ns).Requires(hostname).PersistentPodState
		t.Cleanup(func() { _ = client.IgnoreNotFound(env.Client.Delete(within(t, time.Second), state)) })
		if err := c.Create(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(heard.text(), ns) {
			t.Errorf("warnings %q do not name namespace %s", heard.text(), ns)
		}
		testenv.Eventually(t, func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(state), state); err != nil {
				return err
			}
			got := meta.FindStatusCondition(state.Status.Conditions, appsv1beta1.ConditionRecording)
			if got == nil || got.Status != metav1.ConditionFalse || got.Reason != appsv1beta1.ReasonNamespaceLeftOut {
				return fmt.Errorf("%s: condition %+v, want that nobody is pinned", ns, got)
			}
			return nil
		})
	}
}

// What is said to be left out is what the manifest leaves out.
func TestNamespacesThatAreLeftOut(t *testing.T) {
	mutating, validating := readWebhooks(t)
	selectors := map[string]*metav1.LabelSelector{}
	for _, w := range mutating.Webhooks {
		selectors[w.Name] = w.NamespaceSelector
	}
	for _, w := range validating.Webhooks {
		if w.NamespaceSelector != nil { // PersistentPodStates are judged wherever they are
			selectors[w.Name] = w.NamespaceSelector
		}
	}
	want := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: pin.LeftOut()},
	}}
	for name, selector := range selectors {
		if diff := cmp.Diff(want, selector); diff != "" {
			t.Errorf("namespaces of webhook %s (-want +got):\n%s", name, diff)
		}
	}
	if len(selectors) < 3 {
		t.Errorf("selectors of %d webhooks, want those of pods and of StatefulSets", len(selectors))
	}
}

// listen returns a client, and what the API server warns it of.
func listen(t *testing.T) (client.Client, *listener) {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	heard := &listener{}
	config.WarningHandler = heard
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c, heard
}

// listener collects the API server's warnings.
type listener struct {
	mu    sync.Mutex
	texts []string
}

func (l *listener) HandleWarningHeader(_ int, _, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts = append(l.texts, text)
}

func (l *listener) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts = nil
}

func (l *listener) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.texts, "; ")
}
