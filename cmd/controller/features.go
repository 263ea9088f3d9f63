package main

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	budgetadmit "github.com/limpet-io/limpet/internal/budget/admit"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/budget/peers"
	budgetcontroller "github.com/limpet-io/limpet/internal/budget/reconcile"
	budgetvalidate "github.com/limpet-io/limpet/internal/budget/validate"
	claimcontroller "github.com/limpet-io/limpet/internal/claim/reconcile"
	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/keepnodes"
	loanadmit "github.com/limpet-io/limpet/internal/loan/admit"
	loancontroller "github.com/limpet-io/limpet/internal/loan/reconcile"
	networkcontroller "github.com/limpet-io/limpet/internal/nodenetwork"
	"github.com/limpet-io/limpet/internal/pin"
	pinadmit "github.com/limpet-io/limpet/internal/pin/admit"
	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	pinvalidate "github.com/limpet-io/limpet/internal/pin/validate"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/platform/review"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	spreadadmit "github.com/limpet-io/limpet/internal/spread/admit"
	"github.com/limpet-io/limpet/internal/spread/placement"
	spreadcontroller "github.com/limpet-io/limpet/internal/spread/reconcile"
	spreadvalidate "github.com/limpet-io/limpet/internal/spread/validate"
	"github.com/limpet-io/limpet/internal/upgrade"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1alpha1 "github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// feature is one part of the controller. Whatever the controller does for users stands in
// the list that features returns.
type feature struct {
	name string
	// schemes register the kinds that the feature reads and writes.
	schemes []func(*runtime.Scheme) error
	// needs is what the feature reads from the caches.
	needs []cluster.Needs
	// crds are the definitions that have a former version, which the controller converts. A
	// CRD with one version is not listed.
	crds []upgrade.CRD
	// planners take part in the creation of pods.
	planners func(shared) []creation.Planner
	// validators judge the feature's own kinds, or complete objects of users, by the path of their
	// webhook.
	validators func(shared) map[string]http.Handler
	// reconcilers run on the leader, or on every replica where they say so.
	reconcilers func(shared) []reconciler
}

type reconciler interface{ SetupWithManager(ctrl.Manager) error }

// shared is what features are made with.
type shared struct {
	mgr     ctrl.Manager
	options options
	events  events.EventRecorder
	clock   clock.Clock
	// live reads past the cache what users name, and bounds that by namespace.
	live *cluster.LiveReader
	// proven is live for what exists.
	proven  *cluster.LiveReader
	reader  *workloads.Reader
	watcher *workloads.Watcher
	evictor *evict.Evictor
	// disruption gathers what budgets count, books hold the pods that may go, and the judge
	// decides from both.
	disruption *disruption.Reader
	books      *books.Books
	judge      *disruption.Judge
	peers      *peers.Peers // reads budgets of other clusters
	// sightings tell where deleted pods ran.
	sightings *cluster.Sightings
	// tally counts the pods of owners and subsets, and sizes reads how many pods workloads want.
	tally *placement.Tally
	sizes *workloads.Scales
	// leading is for what only the leader does: its writes wait while this replica does not lead.
	leading client.Client
	// lead waits until this replica leads; nil without an election.
	lead func(context.Context) error
}

// features lists what the controller does. Planners are asked in this order.
func features(o options) []feature {
	all := []feature{kindsOfWorkload(o), pins(), spreads(), budgets(), scaleIns(), rollouts(), nodeNetworks(), loans(), claims()}
	if o.KeepNodes {
		all = append(all, keptNodes())
	}
	return all
}

// kindsOfWorkload keeps up to date which kinds of workload have pods that return.
func kindsOfWorkload(o options) feature {
	return feature{
		name:        "kinds of workload",
		needs:       []cluster.Needs{workloads.Needs(o.kindsIn()...)},
		reconcilers: func(s shared) []reconciler { return []reconciler{s.watcher} },
	}
}

// pins brings rebuilt pods back to their nodes.
func pins() feature {
	return feature{
		name:    "pin",
		schemes: []func(*runtime.Scheme) error{appsv1alpha1.AddToScheme, appsv1beta1.AddToScheme, limpetv1alpha1.AddToScheme},
		needs:   []cluster.Needs{pincontroller.Needs()},
		crds: []upgrade.CRD{
			{Name: "persistentpodstates.apps.kruise.io", Stored: appsv1beta1.GroupVersion.WithKind("PersistentPodState")},
		},
		planners: func(s shared) []creation.Planner {
			return []creation.Planner{
				&pinadmit.Planner{Cached: s.mgr.GetCache(), Live: s.live, LiveProven: s.proven, Workloads: s.reader, Sightings: s.sightings, Clock: s.clock},
			}
		},
		validators: func(s shared) map[string]http.Handler {
			scheme := s.mgr.GetScheme()
			live := cluster.NewLiveReader(s.mgr.GetAPIReader(), cluster.LimitUnproven) // its reads delay no pod's
			state := &pinvalidate.PersistentPodState{Live: live, Cached: s.mgr.GetCache(), Workloads: s.reader}
			return map[string]http.Handler{
				pinvalidate.PersistentPodStatePath: admission.WithValidator(scheme, state),
				pinvalidate.WorkloadPath: &admission.Webhook{
					Handler: &pinvalidate.Workload{Cached: s.mgr.GetCache(), Workloads: s.reader, MaxReservation: s.options.MaxReservation},
				},
			}
		},
		reconcilers: pinReconcilers,
	}
}

// spreads divides the pods of a workload into subsets.
func spreads() feature {
	return feature{
		name:    "spread",
		schemes: []func(*runtime.Scheme) error{appsv1alpha1.AddToScheme, appsv1beta1.AddToScheme},
		needs:   []cluster.Needs{spreadadmit.Needs(), spreadcontroller.Needs()},
		crds: []upgrade.CRD{
			{Name: "workloadspreads.apps.kruise.io", Stored: appsv1beta1.GroupVersion.WithKind("WorkloadSpread")},
		},
		validators: func(s shared) map[string]http.Handler {
			scheme := s.mgr.GetScheme()
			live := cluster.NewLiveReader(s.mgr.GetAPIReader(), cluster.LimitUnproven) // its reads delay no pod's
			spread := &spreadvalidate.WorkloadSpread{
				Live: live, Cached: s.mgr.GetCache(),
				Namespaces: review.NewNamespaces(live, s.mgr.GetClient(), s.clock), Workloads: s.reader,
			}
			return map[string]http.Handler{
				spreadvalidate.WorkloadSpreadPath: admission.WithValidator(scheme, spread),
			}
		},
		planners: func(s shared) []creation.Planner {
			return []creation.Planner{&spreadadmit.Planner{
				Cached: s.mgr.GetCache(), Live: s.live, LiveProven: cluster.NewLiveReader(s.mgr.GetAPIReader(), cluster.LimitLabelled), Workloads: s.reader, Sizes: s.sizes, Tally: s.tally, Books: s.books,
				Clock: s.clock, Events: s.events, Metrics: spreadadmit.NewMetrics(metrics.Registry),
				Recorded: func(ctx context.Context, namespace string, owner workload.Target) (map[string]string, error) {
					return pinadmit.Recorded(ctx, s.mgr.GetCache(), namespace, owner)
				},
			}}
		},
		reconcilers: spreadReconcilers,
	}
}

// loans take addresses along to the nodes of their pods.
func loans() feature {
	return feature{
		name:     "loan",
		schemes:  []func(*runtime.Scheme) error{appsv1beta1.AddToScheme, limpetv1alpha1.AddToScheme},
		needs:    []cluster.Needs{loancontroller.Needs()},
		planners: func(shared) []creation.Planner { return []creation.Planner{loanadmit.Planner{}} },
		reconcilers: func(s shared) []reconciler {
			return []reconciler{&loancontroller.Lender{Client: s.leading, Live: s.mgr.GetAPIReader(), Clock: s.clock, Events: s.events, Workloads: s.reader}}
		},
	}
}

// claims show what is kept for IPAMClaims.
func claims() feature {
	return feature{
		name:    "claim",
		schemes: []func(*runtime.Scheme) error{limpetv1alpha1.AddToScheme},
		needs:   []cluster.Needs{claimcontroller.Needs()},
		reconcilers: func(s shared) []reconciler {
			return []reconciler{&claimcontroller.Keeper{Client: s.leading, Live: s.mgr.GetAPIReader(), Watcher: s.watcher}}
		},
	}
}

// nodeNetworks tells which nodes have the settings of the NodeNetwork.
func nodeNetworks() feature {
	return feature{
		name:    "node network",
		schemes: []func(*runtime.Scheme) error{limpetv1alpha1.AddToScheme},
		needs:   []cluster.Needs{networkcontroller.Needs()},
		reconcilers: func(s shared) []reconciler {
			return []reconciler{&networkcontroller.Reporter{Client: s.leading, Live: s.mgr.GetAPIReader(), Clock: s.clock}}
		},
	}
}

// keptNodes keeps autoscalers from removing nodes that hold reservations.
func keptNodes() feature {
	return feature{
		name:        "kept nodes",
		schemes:     []func(*runtime.Scheme) error{limpetv1alpha1.AddToScheme},
		needs:       []cluster.Needs{keepnodes.Needs()},
		reconcilers: func(s shared) []reconciler { return []reconciler{&keepnodes.Keeper{Client: s.leading, Clock: s.clock}} },
	}
}

func spreadReconcilers(s shared) []reconciler {
	c, live := s.leading, s.mgr.GetAPIReader()
	return []reconciler{
		&spreadcontroller.Labeler{Client: c, Live: live, Clock: s.clock},
		&spreadcontroller.Reconciler{
			Client: c, Live: live, Sizes: s.sizes, Kinds: s.watcher, Books: s.books, Tally: s.tally, Clock: s.clock, Events: s.events,
			Metrics: spreadcontroller.NewMetrics(metrics.Registry), Evictor: s.evictor,
		},
	}
}

// budgets says which pods may go.
func budgets() feature {
	return feature{
		name:    "budgets",
		schemes: []func(*runtime.Scheme) error{policyv1alpha1.AddToScheme, policyv1beta1.AddToScheme, limpetv1alpha1.AddToScheme},
		needs:   []cluster.Needs{disruption.Needs(), books.Needs(), budgetcontroller.Needs()},
		crds: []upgrade.CRD{
			{Name: "podunavailablebudgets.policy.kruise.io", Stored: policyv1beta1.GroupVersion.WithKind("PodUnavailableBudget")},
		},
		validators: func(s shared) map[string]http.Handler {
			scheme := s.mgr.GetScheme()
			live := cluster.NewLiveReader(s.mgr.GetAPIReader(), cluster.LimitUnproven) // its reads delay no pod's
			budget := &budgetvalidate.PodUnavailableBudget{
				Cached: s.mgr.GetCache(), Namespaces: review.NewNamespaces(live, s.mgr.GetClient(), s.clock),
				Size: func(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) (int32, error) {
					facts, err := s.disruption.Covered(ctx, b, s.clock.Now())
					if err != nil || facts.Budget.Unknown != "" {
						return 0, err
					}
					return facts.Budget.Expected, nil
				},
			}
			return map[string]http.Handler{
				budgetvalidate.PodUnavailableBudgetPath: admission.WithValidator(scheme, budget),
				budgetvalidate.DistributedPath:          admission.WithValidator(scheme, &budgetvalidate.Distributed{Namespaces: budget.Namespaces}),
			}
		},
		planners:    func(shared) []creation.Planner { return []creation.Planner{budgetadmit.Planner{}} },
		reconcilers: budgetReconcilers,
	}
}

func budgetReconcilers(s shared) []reconciler {
	c, live := s.leading, s.mgr.GetAPIReader()
	return []reconciler{
		&budgetcontroller.Reconciler{
			Client: c, Reader: s.disruption, Books: s.books, Peers: s.peers, Kinds: s.reader.Registry, Clock: s.clock, Events: s.events,
			Prober:  &budgetcontroller.Prober{Client: c, Live: live, Configuration: webhookConfiguration},
			Metrics: budgetcontroller.NewMetrics(metrics.Registry, s.clock),
		},
		&budgetcontroller.Attendant{Client: c, Live: live, Evictor: s.evictor, Kinds: s.reader.Registry, Clock: s.clock},
		&budgetcontroller.Labeler{Client: c, Pods: s.mgr.GetCache(), Live: live, Clock: s.clock, Events: s.events},
	}
}

func pinReconcilers(s shared) []reconciler {
	c, live, metric := s.leading, s.mgr.GetAPIReader(), pincontroller.NewMetrics(metrics.Registry)
	leases := &pincontroller.LeaseMonitor{Live: live, Clock: s.clock}
	aggregator := &pincontroller.Aggregator{Client: c, Cache: s.mgr.GetCache(), Clock: s.clock, Events: s.events, Pace: pin.UsualPace, Lead: s.lead}
	return []reconciler{
		aggregator,
		&pincontroller.Generator{Client: c, Live: live, Watcher: s.watcher, Events: s.events},
		&pincontroller.Recorder{
			Client: c, Workloads: s.reader, Watcher: s.watcher, MaxReservation: s.options.MaxReservation, Clock: s.clock,
			Events: s.events, Aggregator: aggregator, Metrics: metric, Evictor: s.evictor, Leases: leases,
		},
		&pincontroller.Nominator{Client: s.mgr.GetClient(), Workloads: s.reader, Clock: s.clock, Elected: s.mgr.Elected(), Events: s.events, Leases: leases},
		&pincontroller.Resyncer{Client: c, Cache: s.mgr.GetCache(), Workloads: s.reader, Clock: s.clock},
		&pincontroller.Checker{Client: c, Live: s.mgr.GetAPIReader(), Clock: s.clock, Metrics: metric},
	}
}
