package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync/atomic"
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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// kindsPoll is the time until the next look at which kinds are served.
const kindsPoll = 5 * time.Second

var errKindsUnread = errors.New("kinds of workload are not read yet")

// Workloads knows the kinds of workload, beside the StatefulSet of Kubernetes, whose pods
// return: OpenKruise's own, and those that a ConfigMap names. Kinds come and go while it
// runs. It runs in every replica, for webhooks need to know the kinds too.
type Workloads struct {
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

	kinds    atomic.Pointer[pin.Kinds]
	served   atomic.Pointer[map[schema.GroupKind]servedKind]
	changed  chan event.GenericEvent
	watchers []func(schema.GroupVersionKind) error

	cache   cache.Cache
	sound   map[string][]schema.GroupVersionKind // by namespace: the last list that made sense
	told    map[string]string                    // by namespace: the last problem
	watched map[schema.GroupVersionKind]bool
}

// SetupWithManager lets it run in every replica.
func (w *Workloads) SetupWithManager(mgr ctrl.Manager) error {
	w.cache, w.changed = mgr.GetCache(), make(chan event.GenericEvent, 1)
	w.sound, w.told = map[string][]schema.GroupVersionKind{}, map[string]string{}
	w.watched = map[schema.GroupVersionKind]bool{}
	return mgr.Add(w)
}

// NeedLeaderElection tells that it does not.
func (w *Workloads) NeedLeaderElection() bool { return false }

// OnServed has the leader call watch with every kind that is served, and once more with
// one that was gone in between. It is for before the manager starts.
func (w *Workloads) OnServed(watch func(schema.GroupVersionKind) error) {
	w.watchers = append(w.watchers, watch)
}

// Changed tells that other kinds than before are held or served.
func (w *Workloads) Changed() <-chan event.GenericEvent { return w.changed }

// Kinds are those that are known now.
func (w *Workloads) Kinds() pin.Kinds {
	if kinds := w.kinds.Load(); kinds != nil {
		return *kinds
	}
	return pin.Kinds{}
}

// Fresh are the kinds as they are named at this moment, for somebody who named one and
// goes on to use it.
func (w *Workloads) Fresh(ctx context.Context) (pin.Kinds, error) {
	lists, err := readKinds(ctx, w.Live, w.Namespaces)
	return union(lists), err
}

// Ready is the readiness check: a webhook that does not know the kinds would let their
// pods pass unpinned.
func (w *Workloads) Ready(*http.Request) error {
	if w.kinds.Load() == nil {
		return errKindsUnread
	}
	return nil
}

// Start looks at once, whenever a ConfigMap changes, and from time to time.
func (w *Workloads) Start(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	if err := w.wakeOnChange(ctx, wake); err != nil {
		return fmt.Errorf("watch ConfigMap %s: %w", KindsConfigMap, err)
	}
	for {
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Kinds of workload may be out of date")
		}
		select {
		case <-wake:
		case <-w.Clock.After(kindsPoll):
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *Workloads) wakeOnChange(ctx context.Context, wake chan<- struct{}) error {
	informer, err := w.cache.GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	now := func(any) {
		select {
		case wake <- struct{}{}:
		default: // it is awake
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: now, DeleteFunc: now, UpdateFunc: func(_, o any) { now(o) },
	})
	return err
}

// look brings what is known and what is watched in line with what is named and served.
func (w *Workloads) look(ctx context.Context) error {
	lists, err := readKinds(ctx, w.Client, w.Namespaces)
	if err != nil {
		return err
	}
	w.sound = keepSound(lists, w.sound)
	kinds := union(lists)
	served := w.probe(ctx, kinds.Named)
	kindsBefore, servedBefore := w.kinds.Swap(&kinds), w.served.Swap(&served)
	if kindsBefore == nil || !reflect.DeepEqual(*kindsBefore, kinds) || !sameServed(*servedBefore, served) {
		log.FromContext(ctx).Info("Kinds of workload", "named", kinds.Named, "problem", kinds.Problem)
		select {
		case w.changed <- event.GenericEvent{Object: &appsv1beta1.PersistentPodState{}}:
		default: // whoever is told did not look since the last time
		}
	}
	if w.leads() {
		w.tell(lists, served)
		return w.watch(ctx, served)
	}
	return nil
}

func (w *Workloads) leads() bool {
	select {
	case <-w.Elected:
		return true
	default:
		return false
	}
}

// tell makes an event of each new problem with what a ConfigMap names.
func (w *Workloads) tell(lists []kindList, served map[schema.GroupKind]servedKind) {
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
		if problem != "" && problem != w.told[list.from.Namespace] {
			w.Events.Eventf(list.from, nil, corev1.EventTypeWarning, appsv1beta1.ReasonKindsInvalid, "ReadWorkloadKinds", "%s", problem)
		}
		w.told[list.from.Namespace] = problem
	}
}
