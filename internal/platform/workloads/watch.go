package workloads

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// probeInterval is the time between two probes of which kinds are served.
const probeInterval = 5 * time.Second

// Watcher keeps a Registry up to date. It runs in every replica, because the webhooks use
// the registry too. On the leader it also watches the served kinds and reports problems.
type Watcher struct {
	Registry *Registry
	// Client reads the ConfigMap from the cache.
	Client client.Client
	// Live reads past the cache.
	Live      client.Reader
	Discovery discovery.ServerResourcesInterface
	// Namespaces are where the ConfigMap is looked for.
	Namespaces []string
	Events     events.EventRecorder
	Clock      clock.Clock
	// Elected is closed when this replica leads.
	Elected <-chan struct{}

	cache        cache.Cache
	valid        map[string][]kind                // by namespace: the last valid list
	validSpreads map[string][]workload.SpreadKind // the same for spreads
	reported     map[string]string                // by namespace and key: the last problem
	pins         watches
	spreads      watches
	claims       watches
	servedClaims map[schema.GroupKind]Kind
}

type kind = schema.GroupVersionKind

// IPAMClaims is the kind of claims on addresses of the Network Plumbing Working Group.
var IPAMClaims = kind{Group: "k8s.cni.cncf.io", Version: "v1alpha1", Kind: "IPAMClaim"}

// SetupWithManager runs the watcher in every replica.
func (w *Watcher) SetupWithManager(mgr ctrl.Manager) error {
	w.cache, w.reported = mgr.GetCache(), map[string]string{}
	return mgr.Add(w)
}

// NeedLeaderElection tells that the watcher also runs in replicas that do not lead.
func (w *Watcher) NeedLeaderElection() bool { return false }

// OnServed makes the leader call watch with every kind whose pods return and that is served, and
// again with a kind that is served again. It must be called before the manager starts.
func (w *Watcher) OnServed(watch func(schema.GroupVersionKind) error) {
	w.pins.on = append(w.pins.on, watch)
}

// OnSpreadServed is OnServed for the kinds that are named for spreads, and the kinds between.
func (w *Watcher) OnSpreadServed(watch func(schema.GroupVersionKind) error) {
	w.spreads.on = append(w.spreads.on, watch)
}

// OnClaimsServed is OnServed for IPAMClaims.
func (w *Watcher) OnClaimsServed(watch func(schema.GroupVersionKind) error) {
	w.claims.on = append(w.claims.on, watch)
}

// Start refreshes the registry at once, whenever a ConfigMap changes, and periodically.
func (w *Watcher) Start(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	if err := w.wakeOnChange(ctx, wake); err != nil {
		return fmt.Errorf("watch ConfigMap %s: %w", KindsConfigMap, err)
	}
	for {
		if err := w.refresh(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Kinds of workload may be out of date")
		}
		select {
		case <-wake:
		case <-w.Clock.After(probeInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *Watcher) wakeOnChange(ctx context.Context, wake chan<- struct{}) error {
	informer, err := w.cache.GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	now := func(any) {
		select {
		case wake <- struct{}{}:
		default: // a refresh is due anyway
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: now, DeleteFunc: now, UpdateFunc: func(_, o any) { now(o) },
	})
	return err
}

// refresh brings the registry and the watches in line with what is named and served.
func (w *Watcher) refresh(ctx context.Context) error {
	by := prober{w.Live, w.Discovery}
	served := by.probe(ctx, kruiseStatefulSets, w.Registry.served.Load())
	from, err := readConfigMaps(ctx, w.Client, trusted(w.Namespaces, served))
	if err != nil {
		return err
	}
	lists := parse(from, KindsKey, workload.ParseKinds)
	w.valid = keepValid(lists, w.valid)
	forSpreads := parse(from, SpreadKindsKey, workload.ParseSpreadKinds)
	w.validSpreads = keepValid(forSpreads, w.validSpreads)
	kinds, spreads := union(lists), unionOfSpreads(forSpreads)
	maps.Copy(served, by.probe(ctx, kinds.Named, w.Registry.served.Load()))
	servedSpreads := by.probe(ctx, spreads.All(), w.Registry.servedSpreads())
	held := by.probe(ctx, []kind{cloneSets}, w.Registry.held.Load())
	maps.Copy(held, served)
	for of, kind := range servedSpreads {
		if len(spreads.BetweenOf(of)) == 0 { // it makes its pods itself
			held[of] = kind
		}
	}
	unheld := w.hold(ctx, held)
	if w.Registry.set(kinds, served) {
		log.FromContext(ctx).Info("Kinds of workload", "named", kinds.Named, "problem", kinds.Problem)
	}
	if w.Registry.setSpreads(spreads, servedSpreads) {
		log.FromContext(ctx).Info("Kinds of workload for spreads", "named", spreads.Named, "problem", spreads.Problem)
	}
	if !cluster.Leads(w.Elected) {
		return unheld
	}
	for _, list := range lists {
		w.report(list.from, list.key, append(forbidden(list.kinds, served), list.err))
	}
	for _, list := range forSpreads {
		w.report(list.from, list.key, append(forbidden(workload.SpreadKinds{Named: list.kinds}.All(), servedSpreads), list.err))
	}
	w.servedClaims = by.probe(ctx, []kind{IPAMClaims}, &w.servedClaims)
	return errors.Join(unheld, w.watch(ctx, served, servedSpreads))
}

// hold makes the cache hold the workloads of the kinds that are served now, in every replica.
func (w *Watcher) hold(ctx context.Context, now map[schema.GroupKind]Kind) error {
	before := w.Registry.Held()
	w.Registry.held.Store(&now)
	var errs []error
	for _, of := range before {
		if !wants(now, of) {
			errs = append(errs, w.cache.RemoveInformer(ctx, Short(of)))
		}
	}
	for _, of := range w.Registry.Held() {
		_, err := w.cache.GetInformer(ctx, Short(of), cache.BlockUntilSynced(false))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// forbidden is why the controller may not read some of the kinds.
func forbidden(kinds []kind, served map[schema.GroupKind]Kind) (errs []error) {
	for _, kind := range kinds {
		if answer := served[kind.GroupKind()]; apierrors.IsForbidden(answer.err) {
			errs = append(errs, errors.New(remedied(answer.err)))
		}
	}
	return errs
}

// report makes an event of a new problem with what a ConfigMap names.
func (w *Watcher) report(from *corev1.ConfigMap, key string, errs []error) {
	problem := ""
	if err := errors.Join(errs...); err != nil {
		problem = err.Error()
	}
	of := from.Namespace + "/" + key
	if problem != "" && problem != w.reported[of] {
		w.Events.Eventf(from, nil, corev1.EventTypeWarning, appsv1beta1.ReasonKindsInvalid, "ReadWorkloadKinds", "key %s: %s", key, shortened(problem))
	}
	w.reported[of] = problem
}

// mostText is the length of a message that quotes what users wrote.
const mostText = 900

func shortened(text string) string { return text[:min(len(text), mostText)] }

// watches are the kinds that are watched for one purpose.
type watches struct {
	on    []func(kind) error
	begun map[kind]bool
}

// wants reports whether a kind is to be watched.
func wants(served map[schema.GroupKind]Kind, of kind) bool {
	now, ok := served[of.GroupKind()]
	return ok && now.GroupVersionKind == of && now.err == nil
}

// watch starts the watches of kinds that are served now, and ends the others. All purposes share
// one watch of a kind: when it ends for one purpose, it begins again for the others.
func (w *Watcher) watch(ctx context.Context, pins, spreads map[schema.GroupKind]Kind) error {
	var errs []error
	purposes := map[*watches]map[schema.GroupKind]Kind{&w.pins: pins, &w.spreads: spreads, &w.claims: w.servedClaims}
	ended := map[kind]bool{}
	for p, served := range purposes {
		for of := range p.begun {
			ended[of] = ended[of] || !wants(served, of)
		}
	}
	for of, end := range ended {
		if end {
			for p := range purposes {
				delete(p.begun, of)
			}
			errs = append(errs, w.cache.RemoveInformer(ctx, Metadata(of)))
		}
	}
	for p, served := range purposes {
		errs = append(errs, p.begin(served))
	}
	return errors.Join(errs...)
}

func (w *watches) begin(served map[schema.GroupKind]Kind) error {
	if w.begun == nil {
		w.begun = map[kind]bool{}
	}
	var errs []error
	for _, now := range served {
		if now.err != nil || w.begun[now.GroupVersionKind] {
			continue
		}
		w.begun[now.GroupVersionKind] = true
		for _, watch := range w.on {
			errs = append(errs, watch(now.GroupVersionKind))
		}
	}
	return errors.Join(errs...)
}
