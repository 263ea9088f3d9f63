package controller

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/pin"
)

// statefulSets is the one kind of workload that every replica has in its cache.
var statefulSets = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// Owner returns the workload that made a pod, of which only the metadata is sure to be
// there, and its kind; nil for one that is gone, or that the controller may not read.
func (w *Workloads) Owner(ctx context.Context, cached client.Reader, pod *corev1.Pod) (metav1.Object, schema.GroupVersionKind, error) {
	kind, ref := statefulSets, metav1.GetControllerOfNoCopy(pod)
	key := client.ObjectKey{Namespace: pod.Namespace, Name: ref.Name}
	if t, _ := pin.OwnerOf(pod); t.Group == appsv1.GroupName {
		var set appsv1.StatefulSet
		if err := cached.Get(ctx, key, &set, client.UnsafeDisableDeepCopy); err == nil && set.UID == ref.UID {
			return &set, kind, nil
		} // otherwise the cache shows the predecessor yet, or none
	} else {
		served, err := w.kindOf(t)
		if err != nil {
			return nil, kind, nil //nolint:nilerr // nobody lets us read it, which its PersistentPodStates tell
		}
		kind = served.GroupVersionKind
	}
	live := metadataOf(kind)
	switch err := w.Live.Get(ctx, key, live); {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && live.UID != ref.UID:
		return nil, kind, nil
	case err != nil:
		return nil, kind, fmt.Errorf("get metadata of %s %s: %w", kind.Kind, key, err)
	}
	return live, kind, nil
}
