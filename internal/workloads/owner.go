package workloads

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/workload"
)

// Owner returns the workload that controls a pod, and its kind; nil for a workload that is
// gone, or that the controller may not read. Only its metadata is certain to be there.
func (r *Reader) Owner(ctx context.Context, pod *corev1.Pod) (metav1.Object, schema.GroupVersionKind, error) {
	kind := StatefulSets
	owner, _ := workload.ControllerOf(pod)
	key := client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name}
	if owner.Group == appsv1.GroupName {
		var set appsv1.StatefulSet
		if err := r.Cached.Get(ctx, key, &set, client.UnsafeDisableDeepCopy); err == nil && set.UID == owner.UID {
			return &set, kind, nil
		} // otherwise the cache still shows the predecessor, or nothing
	} else {
		served, err := r.Served(owner.Target)
		if err != nil {
			return nil, kind, nil //nolint:nilerr // its PersistentPodStates report a kind that cannot be read
		}
		kind = served.GroupVersionKind
	}
	live := Metadata(kind)
	switch err := r.Live.Get(ctx, key, live); {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && live.UID != owner.UID:
		return nil, kind, nil
	case err != nil:
		return nil, kind, fmt.Errorf("get metadata of %s %s: %w", kind.Kind, key, err)
	}
	return live, kind, nil
}
