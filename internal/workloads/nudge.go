package workloads

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AnnotationNudged on a workload says when its controller was last made to retry. It has
// no other use.
const AnnotationNudged = "limpet.dev/nudged"

// Nudge makes the controller of a workload retry at once: it waits ever longer after each refusal, up to
// 17 minutes, and a changed annotation ends the wait. A workload that is gone needs none.
func Nudge(ctx context.Context, c client.Writer, kind schema.GroupVersionKind, key client.ObjectKey, now time.Time) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{AnnotationNudged: now.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	object := Metadata(kind)
	object.Namespace, object.Name = key.Namespace, key.Name
	if err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("nudge %s %s: %w", kind.Kind, key, err)
	}
	return nil
}
