package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/limpet-io/limpet/internal/controller"
	limpetwebhook "github.com/limpet-io/limpet/internal/webhook"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// webhookConfiguration is the name of both webhook configurations in deploy/controller.
const webhookConfiguration = "limpet-controller"

// newManager builds a manager with everything that a controller runs.
func newManager(ctx context.Context, config *rest.Config, o Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(appsv1beta1.AddToScheme(scheme))
	utilruntime.Must(limpetv1alpha1.AddToScheme(scheme))

	secret := client.ObjectKey{Namespace: o.Namespace, Name: o.Secret}
	certificate := &limpetwebhook.Certificate{}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         controller.CacheOptions(secret),
		Metrics:                       server.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:        o.HealthAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              "limpet-controller",
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true, // the process ends right after the manager
		WebhookServer: webhook.NewServer(webhook.Options{
			Port:    o.WebhookPort,
			TLSOpts: []func(*tls.Config){certificate.Configure},
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	if err := controller.AddIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	if err := certificate.Follow(ctx, mgr.GetCache(), secret); err != nil {
		return nil, err
	}
	if err := addRotator(mgr, o, secret); err != nil {
		return nil, err
	}
	limpetwebhook.Register(mgr, o.MaxReservation, clock.RealClock{})
	for _, c := range controllers(mgr, o) {
		if err := c.SetupWithManager(mgr); err != nil {
			return nil, fmt.Errorf("set up %T: %w", c, err)
		}
	}
	return mgr, addChecks(mgr, certificate)
}

type setupper interface{ SetupWithManager(ctrl.Manager) error }

// controllers is everything that reconciles.
func controllers(mgr ctrl.Manager, o Options) []setupper {
	events := mgr.GetEventRecorder("limpet-controller")
	return []setupper{
		&controller.Generator{Client: mgr.GetClient(), Events: events},
		&controller.Recorder{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), MaxReservation: o.MaxReservation, Clock: clock.RealClock{},
			Events: events, Metrics: controller.NewMetrics(metrics.Registry),
		},
		&controller.Nominator{Client: mgr.GetClient(), Clock: clock.RealClock{}, Elected: mgr.Elected()},
		&controller.Nudger{Client: mgr.GetClient(), Clock: clock.RealClock{}},
	}
}

// addRotator lets the leader make and renew the certificate, and put its authority into
// the webhook configurations.
func addRotator(mgr ctrl.Manager, o Options, secret client.ObjectKey) error {
	name := o.Service + "." + o.Namespace + ".svc"
	err := rotator.AddRotator(mgr, &rotator.CertRotator{
		SecretKey:             secret,
		CertDir:               o.CertDir,
		CAName:                "limpet-controller-ca",
		CAOrganization:        "limpet",
		DNSName:               name,
		ExtraDNSNames:         append(o.DNSNames, name+".cluster.local"),
		IsReady:               make(chan struct{}),
		RequireLeaderElection: o.LeaderElect,
		Webhooks: []rotator.WebhookInfo{
			{Name: webhookConfiguration, Type: rotator.Mutating},
			{Name: webhookConfiguration, Type: rotator.Validating},
		},
	})
	if err != nil {
		return fmt.Errorf("set up certificates: %w", err)
	}
	return nil
}

func addChecks(mgr ctrl.Manager, certificate *limpetwebhook.Certificate) error {
	synced := func(req *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(req.Context()) {
			return fmt.Errorf("cache: %w", context.Cause(req.Context()))
		}
		return nil
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add health check: %w", err)
	}
	for name, check := range map[string]healthz.Checker{
		"certificate": certificate.Ready,
		"cache":       synced,
		"webhook":     mgr.GetWebhookServer().StartedChecker(),
	} {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("add readiness check %s: %w", name, err)
		}
	}
	return nil
}
