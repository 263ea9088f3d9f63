package workloads

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// Owner returns the workload that controls a pod, and its kind; nil for a workload that is
// gone, or that the controller may not read. Only its metadata is certain to be there. A
// workload that was just found missing is not read again: a pod can name any workload.
func (r *Reader) Owner(ctx context.Context, pod *corev1.Pod, now time.Time) (metav1.Object, schema.GroupVersionKind, error) {
	if set := r.CachedOwner(ctx, pod); set != nil {
		return set, StatefulSets, nil
	}
	kind, id, err := r.identify(pod)
	if found, known := r.owners.get(id, now); err != nil || known && found == nil || !id.plausible() {
		return nil, kind, nil //nolint:nilerr // its PersistentPodStates report a kind that cannot be read
	}
	return r.liveOwner(ctx, kind, id, now)
}

// RecentOwner is Owner for callers for which the workload as it was a moment ago is enough.
// It costs no request for each pod of a workload that the cache does not hold.
func (r *Reader) RecentOwner(ctx context.Context, pod *corev1.Pod, now time.Time) (metav1.Object, schema.GroupVersionKind, error) {
	kind, id, err := r.identify(pod)
	if found, known := r.owners.get(id, now); err == nil && known && found != nil {
		return found, kind, nil
	}
	return r.Owner(ctx, pod, now)
}

// CachedOwner returns the StatefulSet that controls a pod, as the cache shows it; nil for any
// other workload. The cache may still show the predecessor, which has another UID.
func (r *Reader) CachedOwner(ctx context.Context, pod *corev1.Pod) *appsv1.StatefulSet {
	owner, _ := workload.ControllerOf(pod)
	if owner.GroupKind() != StatefulSets.GroupKind() {
		return nil
	}
	var set appsv1.StatefulSet
	err := r.Cached.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name}, &set, client.UnsafeDisableDeepCopy)
	if err != nil || set.UID != owner.UID {
		return nil
	}
	return &set
}

// Seen reports whether the workload that controls a pod was found not long ago, with the UID
// that the pod names. A user cannot invent such a workload.
func (r *Reader) Seen(pod *corev1.Pod) bool {
	owner, _ := workload.ControllerOf(pod)
	return r.owners.seen(ownerID{owner, pod.Namespace})
}

// identify returns what a pod says of its owner, and the kind in the version that is served.
func (r *Reader) identify(pod *corev1.Pod) (schema.GroupVersionKind, ownerID, error) {
	owner, _ := workload.ControllerOf(pod)
	id := ownerID{owner, pod.Namespace}
	if owner.Group == appsv1.GroupName {
		return StatefulSets, id, nil
	}
	served, err := r.Served(owner.Target)
	if err != nil {
		return StatefulSets, id, err
	}
	return served.GroupVersionKind, id, nil
}

// liveOwner reads the metadata of a workload from the API server.
func (r *Reader) liveOwner(ctx context.Context, kind schema.GroupVersionKind, id ownerID, now time.Time) (metav1.Object, schema.GroupVersionKind, error) {
	key := client.ObjectKey{Namespace: id.namespace, Name: id.Name}
	live, reader := Metadata(kind), r.Live
	if r.LiveProven != nil && r.owners.seen(id) {
		reader = r.LiveProven
	}
	switch err := reader.Get(ctx, key, live); {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && live.UID != id.UID:
		r.owners.put(id, nil, now)
		return nil, kind, nil
	case err != nil:
		return nil, kind, fmt.Errorf("get metadata of %s %s: %w", kind.Kind, key, err)
	}
	short := cluster.ShortMetadata(live) // which is remembered for long
	r.owners.put(id, short, now)
	return short, kind, nil
}

// ownerID is what a pod says of the workload that controls it.
type ownerID struct {
	workload.Owner
	namespace string
}

const (
	ownerMemory = 10 * time.Second // how long an answer about an owner is remembered
	mostOwners  = 4096             // pods can name any number of owners
	longestName = 253              // of an object; pods can name owners of any length
)

// plausible reports whether an object of the API can have this name and UID.
func (id ownerID) plausible() bool { return len(id.Name) <= longestName && len(id.UID) <= longestName }

// ownerAnswers remembers what the API server said of owners. An owner that is missing stays
// so: an owner exists before any of its pods, and its UID never returns. Pods can name any
// number of owners that do not exist, so that these never displace owners that were found.
type ownerAnswers struct {
	found, missing fair.Memory[ownerID, ownerAnswer]
}

type ownerAnswer struct {
	object metav1.Object // nil for an owner that does not exist
	at     time.Time
}

func (a *ownerAnswers) get(id ownerID, now time.Time) (object metav1.Object, known bool) {
	answer, known := a.found.Get(id.namespace, id)
	if !known {
		answer, known = a.missing.Get(id.namespace, id)
	}
	return answer.object, known && now.Sub(answer.at) < ownerMemory
}

// seen reports whether an owner was found at its last read, however long ago.
func (a *ownerAnswers) seen(id ownerID) bool {
	_, found := a.found.Get(id.namespace, id)
	return found
}

func (a *ownerAnswers) put(id ownerID, object metav1.Object, now time.Time) {
	in, other := &a.found, &a.missing
	if object == nil {
		in, other = other, in
	}
	other.Forget(id.namespace, id)
	in.Put(fair.Bounds{All: mostOwners}, id.namespace, id, ownerAnswer{object, now})
}
