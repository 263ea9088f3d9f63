package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/spread/scalein"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// write writes a decision, and reports whether something is left for later: the namespace had its
// writes of this second, or a pod has changed since it was read. A pod that cannot be written
// does not keep the others from it.
func (r *Reconciler) write(ctx context.Context, s *situation, d scalein.Decision) (left bool, err error) {
	var errs []error
	for _, w := range d.Writes {
		if !r.memory.grant(s.namespace, r.Clock.Now()) {
			return true, errors.Join(errs...)
		}
		pod := s.byName[w.Pod].DeepCopy()
		switch err := r.patch(ctx, pod, w.Cost); {
		case err == nil:
			r.memory.wrote(s.key, pod, w.Cost, r.Clock.Now())
			r.Metrics.wrote(s, w)
		case apierrors.IsNotFound(err):
		case apierrors.IsConflict(err):
			left = true
		default:
			errs = append(errs, err)
		}
	}
	return left, errors.Join(errs...)
}

// patch writes the cost of a pod, and what Limpet wrote. It fails if the pod has changed: another
// program may have written a cost.
func (r *Reconciler) patch(ctx context.Context, pod *corev1.Pod, cost string) error {
	var value *string
	if cost != "" {
		value = &cost
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
		"annotations": map[string]*string{annotationCost: value, appsv1beta1.AnnotationDeletionCost: value},
	}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	if err := r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("write deletion cost of pod %s: %w", pod.Name, err)
	}
	return nil
}
