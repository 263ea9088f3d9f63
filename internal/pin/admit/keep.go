package admit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var _ creation.Keeper = (*Planner)(nil)

// Keep returns the annotations by which a pod asks for what the nearer of its workload and its namespace asks. A workload
// that cannot be read asks for nothing: the pod is created, and the reconciler gives it the annotations later. A pod that
// asks for an owner gets its completed name.
func (p *Planner) Keep(ctx context.Context, facts creation.Facts) (podpatch.Patch, error) {
	owner, _ := workload.OwnerOf(facts.Pod)
	var keep pin.KeepRequest
	if !reservation.Asks(facts.Pod.Annotations) && !facts.Pod.Spec.HostNetwork {
		namespace := p.namespaceAnnotations(ctx, facts.Pod.Namespace, facts.DryRun)
		if p.Workloads.Kinds().Contains(owner) {
			if of := p.workloadOf(ctx, facts); of != nil {
				keep = pin.NearestKeep(owner.Kind, of.GetAnnotations(), namespace)
			}
		}
		keep.Expected = pin.AsksFor(namespace)
	}
	patch := keep.Given(facts.Pod)
	name, has, err := p.ownerFor(ctx, facts)
	if !has {
		return patch, err
	}
	if patch.Annotations == nil {
		patch.Annotations = map[string]string{}
	}
	patch.Annotations[reservation.OwnerAnnotation] = name
	return patch, err
}

// workloadOf returns the workload of a pod; nil for one that was not read, or that the cache does not show to a dry run.
func (p *Planner) workloadOf(ctx context.Context, facts creation.Facts) metav1.Object {
	if set := p.Workloads.CachedOwner(ctx, facts.Pod); set != nil {
		return set
	}
	if facts.DryRun {
		return nil
	}
	o, _, err := p.Workloads.RecentOwner(ctx, facts.Pod, facts.Now)
	if err != nil {
		log.FromContext(ctx).Error(err, "Did not read what a workload asks for its pods", "pod", facts.Pod.Name)
	}
	return o
}

// namespaceAnnotations returns what the cache keeps of the annotations of a namespace. One that the cache does not show
// yet was created a moment ago, and is read.
func (p *Planner) namespaceAnnotations(ctx context.Context, name string, dryRun bool) map[string]string {
	var ns corev1.Namespace
	err := p.Cached.Get(ctx, client.ObjectKey{Name: name}, &ns, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) && !dryRun {
		err = p.LiveProven.Get(ctx, client.ObjectKey{Name: name}, &ns)
	}
	if client.IgnoreNotFound(err) != nil {
		log.FromContext(ctx).Error(err, "Did not read what a namespace asks for its pods", "namespace", name)
	}
	return ns.Annotations
}
