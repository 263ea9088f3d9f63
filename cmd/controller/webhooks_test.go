package main

import (
	"fmt"
	"net"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
)

// pointWebhooksAt installs deploy/controller/webhooks.yaml and the conversion of
// deploy/crds, with the service replaced by the address of one replica.
func pointWebhooksAt(t *testing.T, r *replica) {
	t.Helper()
	_, port, _ := net.SplitHostPort(r.webhook)
	env.ConvertAt(t, net.JoinHostPort("localhost", port), nil) // the leader fills in the authority
	redirect := func(c *admissionv1.WebhookClientConfig, old []byte) {
		url := "https://localhost:" + port + *c.Service.Path
		*c = admissionv1.WebhookClientConfig{URL: &url, CABundle: old}
	}
	mutating, validating := readWebhooks(t)
	var m admissionv1.MutatingWebhookConfiguration
	var v admissionv1.ValidatingWebhookConfiguration
	replace(t, mutating, &m, func() {
		for i := range mutating.Webhooks {
			redirect(&mutating.Webhooks[i].ClientConfig, caOf(m.Webhooks, func(w admissionv1.MutatingWebhook) []byte { return w.ClientConfig.CABundle }))
		}
	})
	replace(t, validating, &v, func() {
		for i := range validating.Webhooks {
			validating.Webhooks[i].TimeoutSeconds = new(int32(10)) // machines that test are busy, and an open guard lets pods go then
			redirect(&validating.Webhooks[i].ClientConfig, caOf(v.Webhooks, func(w admissionv1.ValidatingWebhook) []byte { return w.ClientConfig.CABundle }))
		}
	})
	testenv.Eventually(t, func() error { // the leader fills in the authority
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(mutating), mutating); err != nil {
			return err
		}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(validating), validating); err != nil {
			return err
		}
		if len(mutating.Webhooks[0].ClientConfig.CABundle) == 0 || len(validating.Webhooks[0].ClientConfig.CABundle) == 0 {
			return fmt.Errorf("no authority in the webhook configurations yet")
		}
		return nil
	})
}

func caOf[W any](webhooks []W, ca func(W) []byte) []byte {
	if len(webhooks) == 0 {
		return nil
	}
	return ca(webhooks[0])
}

// replace creates want, or updates the one of its name, which is read into old first.
func replace(t *testing.T, want, old client.Object, change func()) {
	t.Helper()
	testenv.Eventually(t, func() error {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(want), old)
		change()
		if apierrors.IsNotFound(err) {
			env.Create(t, want)
			return nil
		}
		if err != nil {
			return err
		}
		want.SetResourceVersion(old.GetResourceVersion())
		return env.Client.Update(t.Context(), want)
	})
}

// readWebhooks reads the webhook configurations as users apply them.
func readWebhooks(t *testing.T) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration) {
	t.Helper()
	m, v := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	objects := env.Manifest(t, "deploy/controller/webhooks.yaml")
	for i, into := range []any{m, v} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, into); err != nil {
			t.Fatal(err)
		}
	}
	return m, v
}
