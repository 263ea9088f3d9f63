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

	"github.com/limpet-io/limpet/internal/platform/cluster"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// SizeOf returns how many pods the target of a spread wants, or why that is not known. A target of a
// kind of Kubernetes is read from the first of the readers that has it.
func (s *Scales) SizeOf(ctx context.Context, ws *appsv1beta1.WorkloadSpread, now time.Time, readers ...client.Reader) (int32, string, error) {
	ref := ws.Spec.TargetReference
	key, kind := client.ObjectKey{Namespace: ws.Namespace, Name: ref.Name}, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if paths := s.PathsOf(ws); len(paths) > 0 {
		return s.Read(ctx, kind, key, now, paths...)
	}
	o, size := sized(kind.GroupKind())
	if o == nil {
		return s.Read(ctx, kind, key, now)
	}
	for _, r := range readers {
		switch err := r.Get(ctx, key, o, client.UnsafeDisableDeepCopy); {
		case err == nil:
			return size(), "", nil
		case !apierrors.IsNotFound(err):
			return 0, "", fmt.Errorf("get %s %s: %w", kind.Kind, key, err)
		}
	}
	return 0, "", nil
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
	o := cluster.NewWorkload(kind)
	switch w := o.(type) {
	case nil, *appsv1.DaemonSet: // a pod of each node has no subset
		return nil, nil
	case *batchv1.Job:
		return o, func() int32 { return ptr.Deref(w.Spec.Parallelism, 1) }
	}
	return o, func() int32 {
		_, wants := cluster.MakesPods(o)
		return wants
	}
}
