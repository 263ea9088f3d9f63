package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/limpet-io/limpet/test/programs"
)

// The CRDs whose versions the controller converts.
const (
	ConvertedCRD     = "persistentpodstates.apps.kruise.io"
	ConvertedSpreads = "workloadspreads.apps.kruise.io"
	ConvertedBudgets = "podunavailablebudgets.policy.kruise.io"
)

// convertedCRDs are all of them.
var convertedCRDs = []string{ConvertedCRD, ConvertedSpreads, ConvertedBudgets}

// RunWebhooks starts a manager for all tests of the package. Of the webhooks in
// deploy/controller/webhooks.yaml and deploy/crds the API server asks those, by their paths,
// for which register returns a handler.
func (e *Env) RunWebhooks(t testing.TB, objects cache.Options, register func(ctrl.Manager) (map[string]http.Handler, error)) ctrl.Manager {
	t.Helper()
	var local envtest.WebhookInstallOptions
	host, port, err := net.SplitHostPort(FreeAddress(t))
	if err == nil {
		local.LocalServingHost = host
		local.LocalServingPort, err = strconv.Atoi(port)
	}
	if err := errors.Join(err, local.PrepWithoutInstalling()); err != nil {
		t.Fatalf("make a certificate: %v", err)
	}
	mgr := e.NewManager(t, objects, func(o *ctrl.Options) {
		o.WebhookServer = webhook.NewServer(webhook.Options{
			Host: local.LocalServingHost, Port: local.LocalServingPort, CertDir: local.LocalServingCertDir,
		})
	})
	handlers, err := register(mgr)
	if err != nil {
		t.Fatal(err)
	}
	for path, handler := range handlers {
		mgr.GetWebhookServer().Register(path, handler)
	}
	stop := run(context.WithoutCancel(t.Context()), mgr)
	e.ends = append(e.ends, func() {
		_ = stop()          // every test has passed or failed by now
		_ = local.Cleanup() // temporary files
	})
	Eventually(t, func() error { return mgr.GetWebhookServer().StartedChecker()(nil) })
	e.install(t, handlers, net.JoinHostPort(local.LocalServingHost, strconv.Itoa(local.LocalServingPort)), local.LocalServingCAData)
	return mgr
}

// install has the API server ask the webhooks of these paths at an address.
func (e *Env) install(t testing.TB, paths map[string]http.Handler, host string, authority []byte) {
	t.Helper()
	w := ReadWebhooks(t)
	w.Mutating.Name, w.Validating.Name = "suite", "suite" // beside those that a test installs for itself
	w.Mutating.Webhooks = slices.DeleteFunc(w.Mutating.Webhooks, func(m admissionv1.MutatingWebhook) bool { return paths[*m.ClientConfig.Service.Path] == nil })
	w.Validating.Webhooks = slices.DeleteFunc(w.Validating.Webhooks, func(v admissionv1.ValidatingWebhook) bool { return paths[*v.ClientConfig.Service.Path] == nil })
	at := func(c admissionv1.WebhookClientConfig) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{URL: new("https://" + host + *c.Service.Path), CABundle: authority}
	}
	for i, m := range w.Mutating.Webhooks {
		w.Mutating.Webhooks[i].ClientConfig = at(m.ClientConfig)
	}
	for i, v := range w.Validating.Webhooks {
		w.Validating.Webhooks[i].ClientConfig = at(v.ClientConfig)
	}
	e.apply(t, w.Mutating)
	e.apply(t, w.Validating)
	if crd := e.ManifestCRD(t, ConvertedCRD); paths[*crd.Spec.Conversion.Webhook.ClientConfig.Service.Path] != nil {
		e.ConvertAt(t, host, authority)
	}
}

// ConvertAt has the API server send objects to an address for their conversion, as
// deploy/crds says apart from the service. Without an authority the CRD keeps the one it has.
func (e *Env) ConvertAt(t testing.TB, host string, authority []byte) {
	t.Helper()
	for _, name := range convertedCRDs {
		want := e.ManifestCRD(t, name)
		url := "https://" + host + *want.Spec.Conversion.Webhook.ClientConfig.Service.Path
		e.ChangeCRD(t, name, func(crd *apiextensionsv1.CustomResourceDefinition) {
			trusted := authority
			if before := crd.Spec.Conversion.Webhook; before != nil && trusted == nil {
				trusted = before.ClientConfig.CABundle
			}
			crd.Spec.Versions, crd.Spec.Conversion = want.Spec.Versions, want.Spec.Conversion.DeepCopy()
			crd.Spec.Conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: trusted}
		})
	}
}

// ManifestCRD is a CRD as users apply it.
func (e *Env) ManifestCRD(t testing.TB, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	for _, o := range e.Render(t, "deploy/crds") {
		if o.GetName() != name {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, crd); err != nil {
			t.Fatalf("decode CRD %s: %v", name, err)
		}
		return crd
	}
	t.Fatalf("deploy/crds has no CRD %s", name)
	return nil
}

// Render returns the objects of a kustomization of the repository, as users apply it.
func (e *Env) Render(t testing.TB, path string) []*unstructured.Unstructured {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := programs.Find(e.server.BinaryAssetsDirectory, "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), kubectl, "kustomize", filepath.Join(root, path)).Output()
	if err != nil {
		t.Fatalf("render %s: %v", path, err)
	}
	return decode(t, path, bytes.NewReader(text))
}

// ChangeCRD edits one of the CRDs.
func (e *Env) ChangeCRD(t testing.TB, name string, edit func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = name
	e.Change(t, crd, func() { edit(crd) })
}

// HastyClock is a clock whose timers go off ten times as early.
type HastyClock struct{ clock.RealClock }

// After waits for a tenth of a time.
func (c HastyClock) After(d time.Duration) <-chan time.Time { return c.RealClock.After(d / 10) }

// run runs a manager until stop is called, which returns why it ended.
func run(ctx context.Context, mgr ctrl.Manager) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return func() error {
		cancel()
		if err := <-ended; err != nil {
			return fmt.Errorf("run manager: %w", err)
		}
		return nil
	}
}
