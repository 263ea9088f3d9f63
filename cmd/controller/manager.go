package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/limpet-io/limpet/internal/cluster"
	controller "github.com/limpet-io/limpet/internal/controller/pin"
	"github.com/limpet-io/limpet/internal/controller/upgrade"
	"github.com/limpet-io/limpet/internal/webhook/serving"
	"github.com/limpet-io/limpet/internal/workloads"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// newManager builds a manager with everything that a controller runs.
func newManager(ctx context.Context, config *rest.Config, o Options) (ctrl.Manager, error) {
	scheme := newScheme()
	needs := []cluster.Needs{workloads.Needs(o.kindsIn()...), controller.Needs()}
	certificate := &serving.Certificate{}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cluster.CacheOptions(needs...),
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
	if err := cluster.AddIndexes(ctx, mgr.GetFieldIndexer(), needs...); err != nil {
		return nil, err
	}
	certifier, err := newCertifier(ctx, config, scheme, o, certificate)
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(certifier); err != nil { // it starts together with the caches
		return nil, fmt.Errorf("add manager of the certificate: %w", err)
	}
	reader, watcher, err := newWorkloads(mgr, o)
	if err != nil {
		return nil, err
	}
	addWebhooks(mgr, reader, o, clock.RealClock{})
	for _, c := range controllers(mgr, reader, watcher, o) {
		if err := c.SetupWithManager(mgr); err != nil {
			return nil, fmt.Errorf("set up %T: %w", c, err)
		}
	}
	return mgr, addChecks(mgr, certificate, reader)
}

// newScheme holds every kind that the controller reads, and both versions of those that
// it converts.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(appsv1alpha1.AddToScheme(scheme))
	utilruntime.Must(appsv1beta1.AddToScheme(scheme))
	utilruntime.Must(limpetv1alpha1.AddToScheme(scheme))
	return scheme
}

// eventSource is who tells of what happens.
const eventSource = "limpet-controller"

func newWorkloads(mgr ctrl.Manager, o Options) (*workloads.Reader, *workloads.Watcher, error) {
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, nil, fmt.Errorf("make discovery client: %w", err)
	}
	reader := &workloads.Reader{
		Registry: workloads.NewRegistry(),
		Cached:   mgr.GetClient(), Live: mgr.GetAPIReader(), Scales: mgr.GetClient(), Namespaces: o.kindsIn(),
	}
	watcher := &workloads.Watcher{
		Registry: reader.Registry,
		Client:   mgr.GetClient(), Live: mgr.GetAPIReader(), Discovery: served, Namespaces: o.kindsIn(),
		Events: mgr.GetEventRecorder(eventSource), Clock: clock.RealClock{}, Elected: mgr.Elected(),
	}
	return reader, watcher, nil
}

type setupper interface{ SetupWithManager(ctrl.Manager) error }

// controllers is everything that reconciles.
func controllers(mgr ctrl.Manager, reader *workloads.Reader, watcher *workloads.Watcher, o Options) []setupper {
	events := mgr.GetEventRecorder(eventSource)
	generator := &controller.Generator{Client: mgr.GetClient(), Events: events}
	return []setupper{
		watcher,
		generator,
		&controller.KindGenerator{Generator: generator, Live: mgr.GetAPIReader(), Watcher: watcher},
		&controller.Recorder{
			Client: mgr.GetClient(), Workloads: reader, Watcher: watcher, MaxReservation: o.MaxReservation, Clock: clock.RealClock{},
			Events: events, Metrics: controller.NewMetrics(metrics.Registry),
		},
		&controller.Nominator{
			Client: mgr.GetClient(), Clock: clock.RealClock{}, Elected: mgr.Elected(), Events: events,
			Leases: &controller.LeaseMonitor{Live: mgr.GetAPIReader(), Clock: clock.RealClock{}},
		},
		&upgrade.Migrator{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), CRD: convertedCRD, Clock: clock.RealClock{}},
		&controller.Resyncer{Client: mgr.GetClient(), Workloads: reader, Clock: clock.RealClock{}},
	}
}

// startWithin is how long the caches may take. An API server that is asked for objects
// while it changes to the conversion webhook may leave the answer open for minutes; who
// asks anew gets one.
const startWithin = time.Minute

func addChecks(mgr ctrl.Manager, certificate *serving.Certificate, kinds *workloads.Reader) error {
	synced := func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
	started := clock.RealClock{}.Now()
	alive := func(req *http.Request) error {
		if (clock.RealClock{}).Since(started) < startWithin {
			return nil
		}
		return synced(req)
	}
	if err := mgr.AddHealthzCheck("cache", alive); err != nil {
		return fmt.Errorf("add health check: %w", err)
	}
	for name, check := range map[string]healthz.Checker{
		"certificate": certificate.Ready,
		"cache":       synced,
		"workloads":   kinds.Ready,
		"webhook":     mgr.GetWebhookServer().StartedChecker(),
	} {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("add readiness check %s: %w", name, err)
		}
	}
	return nil
}
