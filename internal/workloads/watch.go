package workloads

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/limpet-io/limpet/internal/cluster"
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

	cache    cache.Cache
	valid    map[string][]schema.GroupVersionKind // by namespace: the last valid list
	reported map[string]string                    // by namespace: the last problem
	watched  map[schema.GroupVersionKind]bool
	onServed []func(schema.GroupVersionKind) error
}

// SetupWithManager runs the watcher in every replica.
func (w *Watcher) SetupWithManager(mgr ctrl.Manager) error {
	w.cache = mgr.GetCache()
	w.valid, w.reported = map[string][]schema.GroupVersionKind{}, map[string]string{}
	w.watched = map[schema.GroupVersionKind]bool{}
	return mgr.Add(w)
}

// NeedLeaderElection tells that the watcher also runs in replicas that do not lead.
func (w *Watcher) NeedLeaderElection() bool { return false }

// OnServed makes the leader call watch with every kind that is served, and again with a
// kind that is served again. It must be called before the manager starts.
func (w *Watcher) OnServed(watch func(schema.GroupVersionKind) error) {
	w.onServed = append(w.onServed, watch)
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
	lists, err := readLists(ctx, w.Client, w.Namespaces)
	if err != nil {
		return err
	}
	w.valid = keepValid(lists, w.valid)
	kinds := union(lists)
	served := prober{w.Live, w.Discovery}.probe(ctx, kinds.Named, w.Registry.served.Load())
	if w.Registry.set(kinds, served) {
		log.FromContext(ctx).Info("Kinds of workload", "named", kinds.Named, "problem", kinds.Problem)
	}
	if cluster.Leads(w.Elected) {
		w.report(lists, served)
		return w.watch(ctx, served)
	}
	return nil
}

// report makes an event of each new problem with what a ConfigMap names.
func (w *Watcher) report(lists []kindList, served map[schema.GroupKind]Kind) {
	for _, list := range lists {
		errs := []error{list.err}
		for _, kind := range list.kinds {
			if answer := served[kind.GroupKind()]; apierrors.IsForbidden(answer.err) {
				errs = append(errs, answer.err)
			}
		}
		problem := ""
		if err := errors.Join(errs...); err != nil {
			problem = err.Error()
		}
		if problem != "" && problem != w.reported[list.from.Namespace] {
			w.Events.Eventf(list.from, nil, corev1.EventTypeWarning, appsv1beta1.ReasonKindsInvalid, "ReadWorkloadKinds", "%s", problem)
		}
		w.reported[list.from.Namespace] = problem
	}
}

// watch starts the watches of kinds that are served now, and ends the others.
func (w *Watcher) watch(ctx context.Context, served map[schema.GroupKind]Kind) error {
	var errs []error
	for _, kind := range served {
		if kind.err != nil || w.watched[kind.GroupVersionKind] {
			continue
		}
		w.watched[kind.GroupVersionKind] = true
		for _, watch := range w.onServed {
			errs = append(errs, watch(kind.GroupVersionKind))
		}
	}
	for kind := range w.watched {
		if now, ok := served[kind.GroupKind()]; ok && now.GroupVersionKind == kind && now.err == nil {
			continue
		}
		delete(w.watched, kind)
		errs = append(errs, w.cache.RemoveInformer(ctx, Metadata(kind)))
	}
	return errors.Join(errs...)
}
