package reconcile

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/budget"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// podHandler triggers the budgets that count a pod, or counted it before. It lists the budgets of
// a namespace, never its pods. Budgets beyond the bounds notice the pod at their next check.
func (r *Reconciler) podHandler() handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { r.covering(ctx, e.Object.(*corev1.Pod), q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			if after.Status.Phase == corev1.PodSucceeded && len(r.memory.counting(after.Namespace, after.UID)) > 0 {
				r.memory.explain(after.Namespace, r.Clock.Now(), after.UID)
			}
			r.counting(before, q)
			if !maps.Equal(before.Labels, after.Labels) { // a budget may have counted the pod as unavailable
				r.covering(ctx, before, q)
			}
			r.covering(ctx, after, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.counting(e.Object.(*corev1.Pod), q)
			r.covering(ctx, e.Object.(*corev1.Pod), q)
		},
	}
}

// covering triggers the budgets that cover a pod.
func (r *Reconciler) covering(ctx context.Context, pod *corev1.Pod, q queue) {
	pubs, err := r.Reader.Covering(ctx, pod, mostTriggered)
	if err != nil { // only a cache that is being stopped returns an error
		return
	}
	for _, pub := range pubs {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pub)})
	}
}

// counting triggers the budgets that counted a pod. Its labels may match none of them now.
func (r *Reconciler) counting(pod *corev1.Pod, q queue) {
	for _, name := range r.memory.counting(pod.Namespace, pod.UID) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: pod.Namespace, Name: name}})
	}
}

// podChanged passes the changes of a pod that a budget counts, or that explain a loss.
var podChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return before.UID != after.UID ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			before.Status.Phase != after.Status.Phase ||
			before.Generation != after.Generation || before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
			budget.Restarts(before) != budget.Restarts(after) ||
			!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, sameStatus) ||
			!maps.Equal(before.Labels, after.Labels) ||
			!maps.Equal(before.Annotations, after.Annotations) || // only annotations that the cache keeps
			!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
	},
}

func sameStatus(a, b corev1.PodCondition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
}

// specChanged passes the changes of a budget that a user made. The generation does not tell
// them: it stays the same when an annotation of the former version becomes a field.
var specChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew
		return before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() ||
			!equality.Semantic.DeepEqual(specOf(before), specOf(after)) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations())
	},
}

func specOf(o client.Object) any {
	if pub, ok := o.(*policyv1beta1.PodUnavailableBudget); ok {
		return pub.Spec
	}
	return nil // a kind of one version: the generation tells
}

// budgetsIn finds all budgets of an object's namespace.
func (r *Reconciler) budgetsIn(ctx context.Context, o client.Object) []reconcile.Request {
	return r.budgets(ctx, o.GetNamespace())
}

// budgetsOf finds all budgets of a namespace.
func (r *Reconciler) budgetsOf(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.budgets(ctx, namespace.GetName())
}

func (r *Reconciler) budgets(ctx context.Context, namespace string) []reconcile.Request {
	all, err := budgetsOf(ctx, r.Client, namespace, client.UnsafeDisableDeepCopy)
	if err != nil { // see covering
		return nil
	}
	return requests(all)
}

func requests(pubs []policyv1beta1.PodUnavailableBudget) []reconcile.Request {
	out := make([]reconcile.Request, 0, len(pubs))
	for i := range pubs {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pubs[i])})
	}
	return out
}

// bookHandler triggers the budgets that a change of the book is about: those that a new decision names,
// and those of pods whose entry came, changed or ended. Any other budget reads the book at its next check.
func (r *Reconciler) bookHandler() handler.Funcs {
	all := func(ctx context.Context, o client.Object, q queue) {
		for _, request := range r.budgetsIn(ctx, o) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { all(ctx, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { all(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*limpetv1alpha1.DisruptionBook), e.ObjectNew.(*limpetv1alpha1.DisruptionBook)
			for _, entry := range changes(before.Entries, after.Entries) {
				r.entryChanged(ctx, after.Namespace, entry, q)
			}
			for _, d := range after.Decisions { // the newest are first
				if len(before.Decisions) > 0 && equality.Semantic.DeepEqual(d, before.Decisions[0]) {
					break
				}
				for _, name := range d.Budgets {
					q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: after.Namespace, Name: name}})
				}
			}
		},
	}
}

// entryChanged triggers the budgets of the pod of an entry.
func (r *Reconciler) entryChanged(ctx context.Context, namespace string, e limpetv1alpha1.DisruptionEntry, q queue) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: e.UID}}
	r.counting(pod, q)
	if now, err := r.podNow(ctx, namespace, e.Pod, e.UID); err == nil && now != nil { // see covering
		r.covering(ctx, now, q)
	}
}

// changes are the entries that one list has and the other has not.
func changes(before, after limpetv1alpha1.DisruptionEntries) (changed limpetv1alpha1.DisruptionEntries) {
	known := make(map[limpetv1alpha1.DisruptionEntry]bool, len(before))
	for _, e := range before {
		known[e] = true
	}
	for _, e := range after {
		if !known[e] {
			changed = append(changed, e)
		}
		delete(known, e)
	}
	return slices.AppendSeq(changed, maps.Keys(known))
}
