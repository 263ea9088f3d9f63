// Package reconcile shows in the status of IPAMClaims which addresses are kept for them, and gives up those of claims that are
// gone.
package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/limpet-io/limpet/internal/claim"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// manager is the name under which the status of a claim is written. Other programs that write it keep it.
const manager = client.FieldOwner("limpet-ipam-claims")

// Keeper is the reconciler. It runs on the leader, and does nothing in a cluster without IPAMClaims.
type Keeper struct {
	Client  client.Client
	Live    client.Reader
	Watcher *workloads.Watcher

	deleted sync.Map // the UIDs of the claims whose deletion was seen, while something is kept for them
}

// Needs is what the reconciler reads from the caches.
func Needs() cluster.Needs {
	return cluster.Needs{
		Objects: []cluster.Need{cluster.Of(cluster.NodeOwner, cluster.ReservationHolder), cluster.Of(cluster.Labels[*corev1.Node])},
		Indexes: []cluster.Index{cluster.ReservationsByPod()},
	}
}

// SetupWithManager registers the reconciler, and makes it watch IPAMClaims while they are served.
func (k *Keeper) SetupWithManager(mgr ctrl.Manager) error {
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("claim").
		Watches(&limpetv1alpha1.IPReservation{}, handler.EnqueueRequestsFromMapFunc(claimOf)).
		WithOptions(controller.Options{NewQueue: cluster.InTurn(1, cluster.NamespaceOf), RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate)}).
		Build(cluster.RetryOnConflict[reconcile.Request](k))
	k.Watcher.OnClaimsServed(func(kind schema.GroupVersionKind) error {
		return c.Watch(source.Kind(mgr.GetCache(), workloads.Metadata(kind), handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]{
			CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*metav1.PartialObjectMetadata], queue requests) {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
			},
			DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*metav1.PartialObjectMetadata], queue requests) {
				k.deleted.Store(client.ObjectKeyFromObject(e.Object), e.Object.GetUID())
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
			},
		}))
	})
	return err
}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// claimOf finds the claim under whose name an IPReservation is kept.
func claimOf(_ context.Context, o client.Object) []reconcile.Request {
	if name := reservation.ClaimOf(o.(*limpetv1alpha1.IPReservation).Status.Pod); name != "" {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name}}}
	}
	return nil
}

// Reconcile brings the status of one claim up to date, or gives up what is kept for it.
func (k *Keeper) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	held, err := cluster.ReservationsOf(ctx, k.Client, client.ObjectKey{Namespace: req.Namespace, Name: reservation.ClaimOwner(req.Name)})
	if err != nil {
		return ctrl.Result{}, err
	}
	deleted, seen := k.deleted.Load(req.NamespacedName)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(workloads.IPAMClaims)
	switch err := k.Live.Get(ctx, req.NamespacedName, object); {
	case err == nil:
		k.deleted.CompareAndDelete(req.NamespacedName, deleted) // and not a deletion that was seen since
		in := input(object)
		in.Held = held
		if d := claim.Plan(in); d.Write {
			return ctrl.Result{}, k.show(ctx, object, d.Show)
		}
		return ctrl.Result{}, nil
	case apierrors.IsNotFound(err) && !seen: // a backup may restore the claim after its addresses
		return ctrl.Result{}, nil
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, k.giveUp(ctx, req.NamespacedName, held)
	case meta.IsNoMatchError(err): // the kind is not served
		return ctrl.Result{}, nil
	default:
		return ctrl.Result{}, fmt.Errorf("get IPAMClaim %s: %w", req, err)
	}
}

func input(object *unstructured.Unstructured) (in claim.Input) {
	in.Network, _, _ = unstructured.NestedString(object.Object, "spec", "network")
	in.Shown, _, _ = unstructured.NestedStringSlice(object.Object, "status", "ips")
	in.Ours = slices.ContainsFunc(object.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == string(manager) })
	return in
}

// giveUp gives up what is kept for a claim whose deletion was seen.
func (k *Keeper) giveUp(ctx context.Context, of client.ObjectKey, held []limpetv1alpha1.IPReservation) error {
	if len(held) == 0 {
		k.deleted.Delete(of)
	}
	for i := range held {
		if err := cluster.GiveUp(ctx, k.Client, &held[i]); err != nil {
			return err
		}
	}
	return nil
}

// show writes the status of a claim. Where another program owns it, that program's stays.
func (k *Keeper) show(ctx context.Context, of *unstructured.Unstructured, ips []string) error {
	if ips == nil {
		ips = []string{} // the field is required
	}
	status, err := json.Marshal(map[string]any{
		"apiVersion": of.GetAPIVersion(), "kind": of.GetKind(), "metadata": map[string]any{"name": of.GetName(), "uid": of.GetUID()}, "status": map[string]any{"ips": ips},
	})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	err = k.Client.Status().Patch(ctx, of.DeepCopy(), client.RawPatch(types.ApplyPatchType, status), manager)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("write status of IPAMClaim %s/%s: %w", of.GetNamespace(), of.GetName(), err)
	}
	return nil
}
