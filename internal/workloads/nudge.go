package workloads

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/workload"
)

// AnnotationNudged on a workload says when its controller was last made to retry. It has
// no other use.
const AnnotationNudged = "limpet.dev/nudged"

// nudged are the kinds that are nudged beside the served kinds of a Registry. The controller of each puts a workload
// into its queue when an annotation changes, and the roles allow the change. A Deployment is not among them: its
// ReplicaSets make and delete the pods.
var nudged = []schema.GroupVersionKind{
	StatefulSets, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
	batchv1.SchemeGroupVersion.WithKind("Job"),
	{Group: appsv1beta1.GroupVersion.Group, Version: "v1alpha1", Kind: "CloneSet"},
}

// Nudged returns the kind of a workload with its version; false for a kind whose controller is left to its own pace.
func (r *Registry) Nudged(t workload.Target) (schema.GroupVersionKind, bool) {
	at := slices.IndexFunc(nudged, func(kind schema.GroupVersionKind) bool { return kind.GroupKind() == t.GroupKind() })
	if at >= 0 {
		return nudged[at], true
	}
	kind, err := r.Served(t)
	return kind.GroupVersionKind, err == nil
}

// Nudge makes the controller of a workload retry at once: it waits ever longer after each refusal, up to
// 17 minutes, and a changed annotation ends the wait. A workload that is gone, or its kind, needs none.
func Nudge(ctx context.Context, c client.Writer, kind schema.GroupVersionKind, key client.ObjectKey, now time.Time) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{AnnotationNudged: now.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	object := Metadata(kind)
	object.Namespace, object.Name = key.Namespace, key.Name
	err = c.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("nudge %s %s: %w", kind.Kind, key, err)
	}
	return nil
}
