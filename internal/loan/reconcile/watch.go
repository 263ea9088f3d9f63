package reconcile

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// indexOwner finds the loans of an owner.
const indexOwner = "limpet.loan-owner"

// Needs is what the reconciler reads from the caches.
func Needs() cluster.Needs {
	return cluster.Needs{
		Objects: []cluster.Need{
			cluster.Of(cluster.OwnAnnotations[*corev1.Pod], cluster.Owners, cluster.Phase, cluster.Requests(), podPlace),
			nodeNeed,
			cluster.Of(cluster.NodeOwner, cluster.ReservationHolder),
			cluster.Of(wholeLoan),
			cluster.Of(cluster.NodeOwner, poolOfSegment),
		},
		Indexes: []cluster.Index{
			cluster.PodsByOwnerName(), cluster.PodsByNode(), cluster.PodsByTarget(), cluster.ReservationsByPod(), cluster.PoolsByNode(),
			cluster.By(indexOwner, func(b *limpetv1alpha1.BorrowedAddress) []string { return []string{b.Spec.Pod} }).InNamespace(),
		},
	}
}

// nodeNeed is what is read of a node, from the cache and past it.
var nodeNeed = cluster.Of(cluster.Labels, cluster.NodeFitness, flannelOf)

// podPlace keeps where a pod runs or may run, and behind which gates it waits.
func podPlace(from, to *corev1.Pod) {
	to.Spec.NodeName = from.Spec.NodeName
	cluster.PodAddresses(from, to)
	cluster.Gates(from, to)
	cluster.Tolerations(from, to)
	if waits(from) {
		to.Spec.NodeSelector, to.Spec.Affinity = from.Spec.NodeSelector, from.Spec.Affinity
	}
}

// flannelOf keeps how flannel reaches a node.
func flannelOf(from, to *corev1.Node) {
	if backend := loan.Flannel(from.Annotations); backend != "" {
		to.Annotations = loan.FlannelAnnotations(backend)
	}
}

func wholeLoan(from, to *limpetv1alpha1.BorrowedAddress) {
	to.Spec, to.Status, to.Finalizers = from.Spec, *from.Status.DeepCopy(), from.Finalizers
}

// SetupWithManager registers the reconciler.
func (l *Lender) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("loan").
		For(&limpetv1alpha1.BorrowedAddress{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(client.Object) bool { return false }))).
		Watches(&limpetv1alpha1.BorrowedAddress{}, handler.EnqueueRequestsFromMapFunc(ownerOfLoan)).
		Watches(&limpetv1alpha1.IPReservation{}, handler.EnqueueRequestsFromMapFunc(ownerOfReservation)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(l.ownersOn), builder.WithPredicates(nodeChanged)).
		Watches(&limpetv1alpha1.NodeIPPool{}, handler.EnqueueRequestsFromMapFunc(l.ownersOnSegment), builder.WithPredicates(segmentChanged)).
		WatchesRawSource(cluster.PodEvents(mgr.GetCache(), behindGates, handler.EnqueueRequestsFromMapFunc(ownerOfPod), podChanged)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 8, NewQueue: cluster.InTurn(4, cluster.NamespaceOf),
			RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate),
		}).
		Complete(cluster.RetryOnConflict(l))
}

func ownerOfLoan(_ context.Context, o client.Object) []reconcile.Request {
	return request(o.GetNamespace(), o.(*limpetv1alpha1.BorrowedAddress).Spec.Pod)
}

func ownerOfReservation(_ context.Context, o client.Object) []reconcile.Request {
	if r := o.(*limpetv1alpha1.IPReservation); follows(r) {
		return request(r.Namespace, r.Status.Pod)
	}
	return nil
}

func ownerOfPod(_ context.Context, o client.Object) []reconcile.Request {
	name := reservation.OwnerName("", o.GetAnnotations())
	if name == "" {
		name = o.GetName()
	}
	return request(o.GetNamespace(), name)
}

func request(namespace, name string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}

// ownersOn are the owners whom a node concerns that changed: it may take a pod home, or is dead.
func (l *Lender) ownersOn(ctx context.Context, o client.Object) (all []reconcile.Request) {
	node, _ := o.(*corev1.Node)
	var loans limpetv1alpha1.BorrowedAddressList
	if err := l.Client.List(ctx, &loans, client.UnsafeDisableDeepCopy); err != nil { // only a cache that is being stopped returns an error
		return nil
	}
	for i := range loans.Items {
		b := &loans.Items[i]
		if some, _ := fit.Owns(node, b.Spec.IPs); some || b.Status.Home == node.Name || b.Status.Borrower == node.Name {
			all = append(all, ownerOfLoan(ctx, b)...)
		}
	}
	pods, _ := cluster.PodsOn(ctx, l.Client, node.Name) // only a cache that is being stopped returns an error
	for i := range pods {
		if concerns(&pods[i]) {
			all = append(all, ownerOfPod(ctx, &pods[i])...)
		}
	}
	return all
}

// behindGates passes the pods that have a gate when the controller starts.
func behindGates(pod cluster.Outline) bool { return len(pod.Gates()) > 0 }

// podChanged passes what may change a decision about a pod that follows.
var podChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return concerns(e.Object) },
	DeleteFunc: func(e event.DeleteEvent) bool { return concerns(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return concerns(after) && (before.UID != after.UID || waits(before) != waits(after) || before.Spec.NodeName != after.Spec.NodeName ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || before.Status.Phase != after.Status.Phase ||
			len(before.Status.PodIPs) != len(after.Status.PodIPs) || before.ResourceVersion == after.ResourceVersion)
	},
}

func concerns(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && waits(pod) || o.GetAnnotations()[reservation.ModeAnnotation] == reservation.Follow.String()
}

// nodeChanged passes what may change which node has an address.
var nodeChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }, // at the start all loans are looked at anyway
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return before.UID != after.UID || loan.Flannel(before.Annotations) != loan.Flannel(after.Annotations) || before.Spec.Unschedulable != after.Spec.Unschedulable || fit.Ready(before) != fit.Ready(after) ||
			!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) || !equality.Semantic.DeepEqual(before.Spec.PodCIDRs, after.Spec.PodCIDRs)
	},
}
