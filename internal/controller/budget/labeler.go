package budget

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/cluster"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Labeler labels the namespaces that have budgets, or several PodDisruptionBudgets of one pod.
// The API server asks the guard about pods of labelled namespaces only. The webhook that
// validates a budget sets the label first; the Labeler restores, changes and removes the label.
// Where the owner of a namespace asks for that, it also replaces such PodDisruptionBudgets.
type Labeler struct {
	Client client.Client
	// Live reads past the cache before a label is removed.
	Live   client.Reader
	Clock  clock.PassiveClock
	Events events.EventRecorder
}

// SetupWithManager registers the reconciler and what triggers it.
func (l *Labeler) SetupWithManager(mgr ctrl.Manager) error {
	own := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetNamespace()}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("budget-label").
		Watches(&corev1.Namespace{}, namespaceHandler, builder.WithPredicates(labelChanged)).
		Watches(&policyv1beta1.PodUnavailableBudget{}, own, builder.WithPredicates(specChanged)).
		Watches(&policyv1.PodDisruptionBudget{}, own, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2, RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate)}).
		Complete(cluster.RetryOnConflict[reconcile.Request](l))
}

// labelSettles is how long a label that was just set is left alone: the budget that needs the
// label is stored after it.
const labelSettles = 2 * time.Second

// namespaceHandler triggers a namespace: at once when the label may have to be restored.
var namespaceHandler = handler.Funcs{
	CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: e.Object.GetName()}})
	},
	UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
		request := reconcile.Request{NamespacedName: client.ObjectKey{Name: e.ObjectNew.GetName()}}
		if e.ObjectNew.GetLabels()[policyv1beta1.LabelBudgets] != "" {
			q.AddAfter(request, labelSettles)
			return
		}
		q.Add(request)
	},
}

// labelChanged passes the changes of a namespace that the label depends on.
var labelChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew
		return before.GetUID() != after.GetUID() ||
			before.GetLabels()[policyv1beta1.LabelBudgets] != after.GetLabels()[policyv1beta1.LabelBudgets] ||
			before.GetAnnotations()[policyv1beta1.AnnotationIdleSince] != after.GetAnnotations()[policyv1beta1.AnnotationIdleSince] ||
			before.GetAnnotations()[policyv1beta1.AnnotationReplace] != after.GetAnnotations()[policyv1beta1.AnnotationReplace]
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// Reconcile brings the label of one namespace in line with its budgets.
func (l *Labeler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ns corev1.Namespace
	switch err := l.Client.Get(ctx, req.NamespacedName, &ns); {
	case apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp != nil:
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get namespace %s: %w", req.Name, err)
	}
	n, err := l.gather(ctx, &ns)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := n.labelInput().plan()
	if d.lowers {
		if stays, err := l.stays(ctx, n); stays || err != nil {
			return ctrl.Result{}, err
		}
	}
	if d.change {
		if err := l.write(ctx, &ns, d); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	again, err := l.replace(ctx, n)
	return ctrl.Result{RequeueAfter: soonest(again, soonest(d.again, n.again()))}, err
}

// stays tells whether a label that no cached budget needs must stay: the controller did not
// set it, or the API server has a budget that needs it.
func (l *Labeler) stays(ctx context.Context, n neighbourhood) (bool, error) {
	var ns corev1.Namespace
	if err := l.Live.Get(ctx, client.ObjectKey{Name: n.ns.Name}, &ns); err != nil {
		return true, fmt.Errorf("get namespace %s: %w", n.ns.Name, err)
	}
	if !slices.ContainsFunc(ns.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == policyv1beta1.FieldManagerBudgets }) {
		return true, nil
	}
	var budgets policyv1beta1.PodUnavailableBudgetList
	if err := l.Live.List(ctx, &budgets, client.InNamespace(n.ns.Name)); err != nil {
		return true, fmt.Errorf("list PodUnavailableBudgets in namespace %s: %w", n.ns.Name, err)
	}
	return wantedOf(budgets.Items, len(n.pairs) > 0) != n.labelInput().wanted, nil
}

// write changes the label of a namespace that no other client has changed meanwhile.
func (l *Labeler) write(ctx context.Context, ns *corev1.Namespace, d labelDecision) error {
	before := ns.DeepCopy()
	put(&ns.Labels, policyv1beta1.LabelBudgets, d.label)
	put(&ns.Annotations, policyv1beta1.AnnotationIdleSince, d.idle)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := l.Client.Patch(ctx, ns, patch, client.FieldOwner(policyv1beta1.FieldManagerBudgets)); err != nil {
		return fmt.Errorf("label namespace %s: %w", ns.Name, err)
	}
	if before.Labels[policyv1beta1.LabelBudgets] != d.label {
		log.FromContext(ctx).Info("Namespace has another label for budgets", "before", before.Labels[policyv1beta1.LabelBudgets], "now", d.label)
	}
	return nil
}

// put sets a key of a map; an empty value removes the key.
func put(in *map[string]string, key, value string) {
	if value == "" {
		delete(*in, key)
		return
	}
	if *in == nil {
		*in = map[string]string{}
	}
	(*in)[key] = value
}
