package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/budget/peers"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/spread/placement"
	"github.com/limpet-io/limpet/internal/upgrade"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// wallClock is the clock of all features. Tests set it ahead of the clocks of other clusters.
var wallClock clock.Clock = clock.RealClock{}

// newManager builds a manager that runs all features.
func newManager(ctx context.Context, config *rest.Config, o options) (ctrl.Manager, error) {
	all := features(o)
	scheme, err := newScheme(all)
	if err != nil {
		return nil, err
	}
	needs := []cluster.Needs{serving.Needs()}
	var crds []upgrade.CRD
	for _, f := range all {
		needs, crds = append(needs, f.needs...), append(crds, f.crds...)
	}
	certificate := &serving.Certificate{}
	var strangers *serving.Strangers
	if o.refusesPods() {
		strangers = &serving.Strangers{Clock: clock.RealClock{}}
	}
	webhooks, err := newWebhookServer(o, certificate, strangers)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:        scheme,
		Cache:         cluster.CacheOptions(needs...),
		Metrics:       server.Options{BindAddress: "0"}, // addPorts serves them
		WebhookServer: webhooks,
	})
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	if strangers != nil {
		strangers.Cached = mgr.GetCache()
		if err := mgr.Add(strangers); err != nil {
			return nil, fmt.Errorf("gather addresses of pods: %w", err)
		}
	}
	if err := cluster.AddIndexes(ctx, mgr.GetFieldIndexer(), needs...); err != nil {
		return nil, err
	}
	if err := cluster.HoldAll(ctx, mgr.GetCache(), needs...); err != nil {
		return nil, err
	}
	if err := certify(ctx, mgr, o, certificate, crds); err != nil {
		return nil, err
	}
	s, err := newShared(ctx, mgr, o)
	if err != nil {
		return nil, err
	}
	if err := addWebhooks(mgr, all, s); err != nil {
		return nil, err
	}
	migrator := &upgrade.Migrator{Client: s.leading, Live: mgr.GetAPIReader(), CRDs: crds, Clock: s.clock, ReadOnly: o.Certificate == certificateGiven}
	if err := migrator.SetupWithManager(s.mgr); err != nil {
		return nil, fmt.Errorf("set up %T: %w", migrator, err)
	}
	if err := addReconcilers(s.mgr, all, s); err != nil {
		return nil, err
	}
	return mgr, addPorts(ctx, mgr, o, checks{cache: mgr.GetCache(), webhooks: webhooks, certificate: certificate, strangers: strangers, kinds: s.reader, tally: s.tally, clock: s.clock})
}

func addReconcilers(mgr ctrl.Manager, all []feature, s shared) error {
	for _, f := range all {
		if f.reconcilers == nil {
			continue
		}
		for _, r := range f.reconcilers(s) {
			if err := r.SetupWithManager(mgr); err != nil {
				return fmt.Errorf("set up %T of feature %s: %w", r, f.name, err)
			}
		}
	}
	return nil
}

// newScheme holds the kinds of all features, and in every version those that the
// controller converts.
func newScheme(all []feature) (*runtime.Scheme, error) {
	return schemeOf(all, clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme)
}

// schemeOf holds the kinds of all features, and others.
func schemeOf(all []feature, others ...func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	var errs []error
	for _, add := range others {
		errs = append(errs, add(scheme))
	}
	for _, f := range all {
		for _, add := range f.schemes {
			errs = append(errs, add(scheme))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	return scheme, nil
}

// eventSource is the reporter of the controller's events.
const eventSource = "limpet-controller"

func newShared(ctx context.Context, mgr ctrl.Manager, o options) (shared, error) {
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return shared{}, fmt.Errorf("make discovery client: %w", err)
	}
	live := mgr.GetAPIReader()
	s := shared{
		mgr: mgr, options: o, clock: wallClock, events: mgr.GetEventRecorder(eventSource), leading: mgr.GetClient(),
		live:   cluster.NewLiveReader(live, cluster.LimitUnproven),
		proven: cluster.NewLiveReader(live, cluster.LimitProven),
	}
	if o.LeaderElect {
		if err := s.elect(mgr); err != nil {
			return shared{}, err
		}
	}
	s.disruption = disruption.NewReader(mgr.GetCache(), mgr.GetClient())
	s.books = books.New(books.Options{Client: mgr.GetClient(), Cached: mgr.GetCache(), Live: live, Clock: s.clock})
	s.peers = peers.New(peers.Options{Cluster: o.ClusterName, Kubeconfig: o.PeersKubeconfig, Scheme: mgr.GetScheme(), Cached: mgr.GetCache(), Live: live})
	s.judge = disruption.NewJudge(disruption.Options{
		Reader: s.disruption, Books: s.books, Live: live, Peers: s.peers, Access: mgr.GetClient(), Clock: s.clock, MaxReservation: o.MaxReservation,
		User: "system:serviceaccount:" + o.Namespace + ":limpet-controller", NodeEnders: o.NodeEnders, Metrics: disruption.NewMetrics(metrics.Registry),
	})
	s.evictor = &evict.Evictor{Client: s.leading, Ask: s.judge.Leave}
	s.sightings = &cluster.Sightings{Clock: s.clock, Retain: func(pod *corev1.Pod) time.Duration {
		request, _ := reservation.ParseRetentionRequest(pod.Annotations, o.MaxReservation) // the webhook has warned
		return request.Retain
	}}
	if err := s.sightings.Follow(ctx, mgr.GetCache()); err != nil {
		return shared{}, err
	}
	s.sizes = workloads.NewScales(mgr.GetClient(), live)
	s.tally = placement.New(s.clock)
	if err := s.tally.Follow(ctx, mgr.GetCache()); err != nil {
		return shared{}, err
	}
	s.reader = &workloads.Reader{
		Registry: workloads.NewRegistry(),
		Cached:   mgr.GetClient(), Live: s.live, LiveProven: s.proven, Scales: mgr.GetClient(), Namespaces: o.kindsIn(),
	}
	s.sizes.Kinds, s.disruption.Kinds = s.reader.Registry, s.reader.Registry
	s.watcher = &workloads.Watcher{
		Registry: s.reader.Registry,
		Client:   mgr.GetClient(), Live: live, Discovery: served, Namespaces: o.kindsIn(),
		Events: s.events, Clock: s.clock, Elected: s.mgr.Elected(),
	}
	return s, nil
}
