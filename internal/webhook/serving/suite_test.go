package serving_test

import (
	"net/http"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/internal/webhook/serving"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const hostname = corev1.LabelHostname

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env,
		limpetv1alpha1.AddToScheme, appsv1alpha1.AddToScheme, apiextensionsv1.AddToScheme))
}

// served tells that the API server asks the webhook.
var served bool

// serve has the API server ask the conversion webhook, and no other.
func serve(t *testing.T) {
	t.Helper()
	if served {
		return
	}
	env.RunWebhooks(t, cache.Options{}, func(mgr ctrl.Manager) (map[string]http.Handler, error) {
		return map[string]http.Handler{
			serving.ConversionPath: conversion.NewWebhookHandler(mgr.GetScheme(), mgr.GetConverterRegistry()),
		}, nil
	})
	served = true
	probe := anAlpha("probe", env.Namespace(t))
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), probe, client.DryRunAll) }) // after a moment
}
