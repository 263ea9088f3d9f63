package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// resyncInterval is the time between two searches for workloads that lack pods. A search
// costs no request, and reads only workloads that may lack pods. No event tells that the API
// server could not reach a webhook: the leader may have run all the time.
const resyncInterval = 2 * time.Second

// Resyncer makes workloads retry pods that were refused while no webhook answered. Their
// controller waits ever longer after each refusal, up to 17 minutes; a changed annotation
// makes it try at once. The Resyncer runs on the leader.
//
// Nothing else serves: a refused pod does not exist, so that no scheduling gate can hold
// it and no event names it, and a kind's controller offers no other way to retry.
type Resyncer struct {
	Client    client.Client
	Cache     cache.Informers // holds workloads of further kinds
	Workloads *workloads.Reader
	Clock     clock.Clock

	shortfalls map[owner]shortfall
}

// owner is a workload that lacks a pod.
type owner struct {
	workload.Target
	namespace string
}

// shortfall is since when a workload lacks a pod, and how often it was resynced since.
type shortfall struct {
	since   time.Time
	resyncs int
}

// SetupWithManager runs the resyncer on every leader.
func (r *Resyncer) SetupWithManager(mgr ctrl.Manager) error { return mgr.Add(r) }

// Start searches until the context ends.
func (r *Resyncer) Start(ctx context.Context) error {
	for {
		if err := r.resync(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Workloads were not resynced")
		}
		select {
		case <-r.Clock.After(resyncInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

// resync triggers every workload whose shortfall is old enough. A workload that cannot be
// changed does not keep the others from it.
func (r *Resyncer) resync(ctx context.Context) error {
	missing, err := r.search(ctx)
	if err != nil {
		return err
	}
	now, shortfalls := r.Clock.Now(), map[owner]shortfall{}
	var errs []error
	for o, pods := range missing {
		s, known := r.shortfalls[o]
		if !known {
			s.since = now
		}
		if now.Sub(s.since) >= pin.ResyncAfter(s.resyncs) {
			s.resyncs++
			if err := r.trigger(ctx, o, pods, now); err != nil {
				errs = append(errs, fmt.Errorf("resync %s %s/%s: %w", o.Kind, o.namespace, o.Name, err))
			}
		}
		shortfalls[o] = s
	}
	r.shortfalls = shortfalls
	return errors.Join(errs...)
}

// search finds the workloads that lack pods, by the cache alone. Of workloads outside Kubernetes
// the recorded pods are known, too: the names of those that are missing are returned for a closer look.
func (r *Resyncer) search(ctx context.Context) (map[owner][]string, error) {
	missing, errs := map[owner][]string{}, []error(nil)
	for _, list := range []client.ObjectList{&appsv1.StatefulSetList{}, &appsv1.ReplicaSetList{}, &corev1.ReplicationControllerList{}, &batchv1.JobList{}} {
		if err := r.Client.List(ctx, list, client.MatchingFields{indexLacking: theKey}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list workloads that lack pods: %w", err)
		}
		errs = append(errs, meta.EachListItem(list, func(o runtime.Object) error {
			kind, err := r.Client.GroupVersionKindFor(o)
			return errors.Join(err, r.look(ctx, kind, o.(client.Object), missing))
		}))
	}
	for _, kind := range r.Workloads.Held() {
		store, err := cluster.StoreOf[client.Object](ctx, r.Cache, workloads.Short(kind), cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		for _, w := range store.All() {
			errs = append(errs, r.look(ctx, kind, w, missing))
		}
	}
	return missing, errors.Join(append(errs, r.searchRecorded(ctx, missing))...)
}

// look adds a workload that may lack pods, if it lacks some and a webhook may refuse them.
func (r *Resyncer) look(ctx context.Context, kind schema.GroupVersionKind, w client.Object, missing map[owner][]string) error {
	set, ok := w.(*appsv1.StatefulSet) // also the short form of further kinds
	if ok && !lacksPods(set) {
		return nil
	}
	if refusable, err := r.refusable(ctx, w); !refusable || err != nil {
		return err
	}
	o := owner{workload.Target{Group: kind.Group, Kind: kind.Kind, Name: w.GetName()}, w.GetNamespace()}
	if ok {
		if pods, err := r.pods(ctx, o); !pin.LacksPods(set, pods) || err != nil {
			return err
		}
	}
	missing[o] = nil
	return nil
}

// refusable reports whether a webhook may refuse pods of a workload: while none answers, those that return under their
// names and ask for their address, and all of a namespace whose spreads are closed.
func (r *Resyncer) refusable(ctx context.Context, w client.Object) (bool, error) {
	if set, ok := w.(*appsv1.StatefulSet); ok {
		if reservation.Asks(set.Spec.Template.Annotations) {
			return true, nil
		}
	}
	var ns corev1.Namespace
	err := r.Client.Get(ctx, client.ObjectKey{Name: w.GetNamespace()}, &ns, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get namespace %s: %w", w.GetNamespace(), err)
	}
	asked := pin.NearestKeep("", w.GetAnnotations(), ns.Annotations).Value != "" // a pod that gets it may be refused
	return asked || ns.Labels[appsv1beta1.LabelSpreads] == appsv1beta1.LabelSpreadsClosed, nil
}

// searchRecorded adds the workloads of other kinds whose recorded pods are missing.
func (r *Resyncer) searchRecorded(ctx context.Context, missing map[owner][]string) error {
	var states appsv1beta1.PersistentPodStateList
	if err := r.Client.List(ctx, &states, client.MatchingFields{indexOtherKinds: theKey}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list PersistentPodStates: %w", err)
	}
	for i := range states.Items {
		o := owner{pin.TargetOf(&states.Items[i]), states.Items[i].Namespace}
		pods, err := r.pods(ctx, o)
		if err != nil {
			return err
		}
		if names := pin.Missing(&states.Items[i], pods); len(names) > 0 {
			missing[o] = names
		}
	}
	return nil
}

func (r *Resyncer) pods(ctx context.Context, o owner) ([]corev1.Pod, error) {
	return cluster.PodsOf(ctx, r.Client, o.namespace, o.Target)
}

// trigger changes the annotation of a workload, unless it wants none of the missing pods.
func (r *Resyncer) trigger(ctx context.Context, o owner, missing []string, now time.Time) error {
	kind, can := r.Workloads.Nudged(o.Target)
	if !can {
		return nil // the PersistentPodState reports a kind that cannot be read
	}
	if len(missing) > 0 {
		if wants, err := r.wants(ctx, o, missing); !wants || err != nil {
			return err
		}
	}
	key := client.ObjectKey{Namespace: o.namespace, Name: o.Name}
	if err := workloads.Nudge(ctx, r.Client, kind, key, now); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Resynced workload", "kind", o.Kind, "workload", key)
	return nil
}

// wants reports whether a workload wants one of the missing pods.
func (r *Resyncer) wants(ctx context.Context, o owner, missing []string) (bool, error) {
	desired, unread, err := r.Workloads.Read(ctx, o.namespace, o.Target)
	if err != nil || unread != "" || desired == nil {
		return false, err
	}
	pods, err := r.pods(ctx, o)
	return err == nil && desired.ContainsAny(missing, pods), err
}
