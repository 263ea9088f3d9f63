package workloads

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// AnnotationNudged on a workload says when its controller was last made to retry. It has
// no other use.
const AnnotationNudged = "limpet.dev/nudged"

// cloneSets is the CloneSet of OpenKruise.
var cloneSets = schema.GroupVersionKind{Group: appsv1beta1.GroupVersion.Group, Version: "v1alpha1", Kind: "CloneSet"}

// Nudged returns the kind of a workload with its version; false for a kind whose controller is left to its own pace: one
// that the cache does not hold, and Deployments, whose ReplicaSets make and delete the pods. The controllers of all
// others put a workload into their queue when an annotation changes, and the roles allow the change.
func (r *Registry) Nudged(t workload.Target) (schema.GroupVersionKind, bool) {
	if _, known := cluster.Workloads[t.GroupKind()]; known {
		return t.GroupKind().WithVersion("v1"), t.Kind != "Deployment"
	}
	for _, kind := range r.Held() {
		if kind.GroupKind() == t.GroupKind() {
			return kind, true
		}
	}
	return schema.GroupVersionKind{}, false
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
