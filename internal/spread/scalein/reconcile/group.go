package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

var deployments = appsv1.SchemeGroupVersion.WithKind("Deployment")

// group is the pods among which a controller chooses those that go: those of a ReplicaSet, or of
// a CloneSet.
type group struct {
	key       string // of the controller, in the memory
	namespace string
	// workload is where users write annotations and read events: the Deployment of a ReplicaSet,
	// or the controller itself.
	workload client.Object
	chain    []workload.Owner
	keys     topology
	balanced bool
	// old tells that a newer revision exists.
	old bool
	// wants is how many pods the controller wants; 0 if that does not matter.
	wants int
	pods  []corev1.Pod
}

// keyOf is the key of a ReplicaSet in the memory.
func keyOf(set client.ObjectKey) string { return "ReplicaSet/" + set.String() }

// groupOf is the group of a ReplicaSet; nil for a ReplicaSet whose pods the garbage collector will
// remove.
func (r *Reconciler) groupOf(ctx context.Context, set *appsv1.ReplicaSet) (*group, error) {
	of, err := r.workloadOf(ctx, set)
	if of == nil || err != nil {
		return nil, err
	}
	g := &group{
		key: keyOf(client.ObjectKeyFromObject(set)), namespace: set.Namespace, workload: of, chain: chainOf(set), keys: keysOf(set), balanced: balanced(of),
		wants: int(ptr.Deref(set.Spec.Replicas, 1)),
	}
	if g.old, err = r.isOld(ctx, set, of); err != nil {
		return nil, err
	}
	g.pods, err = cluster.PodsOwnedBy(ctx, r.Client, set.Namespace, set.UID)
	return g, err
}

// balanced reports whether a workload asks for the balanced order.
func balanced(o client.Object) bool {
	return o.GetAnnotations()[appsv1beta1.AnnotationScaleIn] == appsv1beta1.ScaleInBalanced
}

// asked reports whether a workload asks for an order, which may be unknown.
func asked(o client.Object) bool {
	_, asked := o.GetAnnotations()[appsv1beta1.AnnotationScaleIn]
	return asked
}

// workloadOf returns the Deployment of a ReplicaSet, or the ReplicaSet if no Deployment controls
// it; nil for a workload that is being deleted. A Deployment's annotations are copied to its
// ReplicaSets, and are not removed there.
func (r *Reconciler) workloadOf(ctx context.Context, set *appsv1.ReplicaSet) (client.Object, error) {
	if set.DeletionTimestamp != nil {
		return nil, nil
	}
	owner, owned := workload.ControllerOf(set)
	if !owned || owner.GroupKind() != deployments.GroupKind() {
		return set, nil
	}
	var d appsv1.Deployment
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: owner.Name}, &d, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && (d.UID != owner.UID || d.DeletionTimestamp != nil):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get Deployment %s/%s: %w", set.Namespace, owner.Name, err)
	}
	return &d, nil
}

// isOld reports whether the Deployment of a ReplicaSet has a newer one.
func (r *Reconciler) isOld(ctx context.Context, set *appsv1.ReplicaSet, of client.Object) (bool, error) {
	if of.GetUID() == set.UID {
		return false, nil
	}
	sets, err := cluster.ReplicaSetsOf(ctx, r.Client, set.Namespace, of.GetUID())
	if err != nil {
		return false, err
	}
	for i := range sets {
		if revision(&sets[i]) > revision(set) {
			return true, nil
		}
	}
	return false, nil
}

func revision(set *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(set.Annotations[annotationRevision], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// topology are the labels of nodes whose values are domains.
type topology struct{ domain, host string }

// keysOf returns the keys over which the pods of a ReplicaSet are spread. The first one that is
// not the host makes the domains. Within a domain, hosts take turns, or the domains of the second
// key.
func keysOf(set *appsv1.ReplicaSet) topology {
	var t topology
	for _, c := range set.Spec.Template.Spec.TopologySpreadConstraints {
		switch { // several constraints may have one key
		case t.domain == "" && c.TopologyKey != corev1.LabelHostname:
			t.domain = c.TopologyKey
		case t.domain != "" && t.host == "" && c.TopologyKey != t.domain:
			t.host = c.TopologyKey
		}
	}
	t.domain, t.host = cmp.Or(t.domain, corev1.LabelHostname), cmp.Or(t.host, corev1.LabelHostname)
	return t
}
