package workloads

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// SizeOf returns how many pods the target of a spread wants, or why that is not known. cached
// reads the kinds of Kubernetes.
func (s *Scales) SizeOf(ctx context.Context, cached client.Reader, ws *appsv1beta1.WorkloadSpread, now time.Time) (int32, string, error) {
	ref := ws.Spec.TargetReference
	key, kind := client.ObjectKey{Namespace: ws.Namespace, Name: ref.Name}, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if paths := s.PathsOf(ws); len(paths) > 0 {
		return s.Read(ctx, kind, key, now, paths...)
	}
	o, size := sized(kind.GroupKind())
	if o == nil {
		return s.Read(ctx, kind, key, now)
	}
	err := cached.Get(ctx, key, o, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return 0, "", nil
	case err != nil:
		return 0, "", fmt.Errorf("get %s %s: %w", kind.Kind, key, err)
	}
	return size(), "", nil
}

// PathsOf returns where the target of a spread says how many pods it wants, as the spread says or
// as is named for the kind; nothing where neither does.
func (s *Scales) PathsOf(ws *appsv1beta1.WorkloadSpread) []string {
	if filter := ws.Spec.TargetFilter; filter != nil && len(filter.ReplicasPathList) > 0 {
		return filter.ReplicasPathList
	}
	if s.Kinds == nil {
		return nil
	}
	kind := schema.FromAPIVersionAndKind(ws.Spec.TargetReference.APIVersion, ws.Spec.TargetReference.Kind).GroupKind()
	if path := s.Kinds.SpreadKinds().PathOf(kind); path != "" {
		return []string{path}
	}
	return nil
}

// sized returns an object of a kind that the cache holds, and how many pods the object wants; nil
// for any other kind.
func sized(kind schema.GroupKind) (client.Object, func() int32) {
	switch kind {
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}:
		o := &appsv1.Deployment{}
		return o, func() int32 { return ptr.Deref(o.Spec.Replicas, 1) }
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "ReplicaSet"}:
		o := &appsv1.ReplicaSet{}
		return o, func() int32 { return ptr.Deref(o.Spec.Replicas, 1) }
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}:
		o := &appsv1.StatefulSet{}
		return o, func() int32 { return ptr.Deref(o.Spec.Replicas, 1) }
	case schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}:
		o := &batchv1.Job{}
		return o, func() int32 { return ptr.Deref(o.Spec.Parallelism, 1) }
	}
	return nil, nil
}
