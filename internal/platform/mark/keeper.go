package mark

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Keeper restores, changes and removes the label of a feature.
type Keeper struct {
	Mark   Mark
	Client client.Client
	// Live reads past the cache before a label is removed.
	Live  client.Reader
	Clock clock.PassiveClock
}

// Keep brings the label of a namespace in line with what the objects of the feature need. live
// returns the need of the objects that the API server has, of which the cache may lack some.
// again is when to look again; 0 for never.
func (k *Keeper) Keep(
	ctx context.Context, ns *corev1.Namespace, wanted string, live func(context.Context) (string, error),
) (again time.Duration, err error) {
	d := input{now: k.Clock.Now(), label: k.Mark.Of(ns), idle: ns.Annotations[k.Mark.Idle], wanted: wanted}.plan()
	if d.lowers {
		if stays, err := k.stays(ctx, ns.Name, wanted, live); stays || err != nil {
			return 0, err
		}
	}
	if !d.change {
		return d.again, nil
	}
	return d.again, client.IgnoreNotFound(k.write(ctx, ns, d))
}

// stays reports whether a label that no cached object needs must stay: the controller did not
// set it, or the API server has an object that needs it.
func (k *Keeper) stays(ctx context.Context, name, wanted string, live func(context.Context) (string, error)) (bool, error) {
	var ns corev1.Namespace
	if err := k.Live.Get(ctx, client.ObjectKey{Name: name}, &ns); err != nil {
		return true, fmt.Errorf("get namespace %s: %w", name, err)
	}
	if !slices.ContainsFunc(ns.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == k.Mark.Manager }) {
		return true, nil
	}
	needed, err := live(ctx)
	return needed != wanted, err
}

// write changes the label of a namespace that no other client has changed meanwhile.
func (k *Keeper) write(ctx context.Context, ns *corev1.Namespace, d decision) error {
	before := ns.DeepCopy()
	k.Mark.put(ns, d.label, d.idle)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := k.Client.Patch(ctx, ns, patch, client.FieldOwner(k.Mark.Manager)); err != nil {
		return fmt.Errorf("label namespace %s: %w", ns.Name, err)
	}
	if was := k.Mark.Of(before); was != d.label {
		log.FromContext(ctx).Info("Namespace has another label", "label", k.Mark.Label, "before", was, "now", d.label)
	}
	return nil
}

// labelSettles is how long a label that was just set is left alone: the object that needs the
// label is stored after it.
const labelSettles = 2 * time.Second

// Handler triggers a namespace: at once when the label may have to be restored.
func (m Mark) Handler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	request := func(o client.Object) reconcile.Request {
		return reconcile.Request{NamespacedName: client.ObjectKey{Name: o.GetName()}}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { q.Add(request(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if m.Of(e.ObjectNew) != "" {
				q.AddAfter(request(e.ObjectNew), labelSettles)
				return
			}
			q.Add(request(e.ObjectNew))
		},
	}
}

// Changed reports whether the label depends on an update of a namespace.
func (m Mark) Changed(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	return before.GetUID() != after.GetUID() || m.Of(before) != m.Of(after) ||
		before.GetAnnotations()[m.Idle] != after.GetAnnotations()[m.Idle]
}
