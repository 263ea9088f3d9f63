package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// GiveUp marks a reservation, so that the agent of its node ends it. Addresses of a pod, and a reservation that is marked, stay
// as they are.
func GiveUp(ctx context.Context, c client.Client, r *limpetv1alpha1.IPReservation) error {
	mark := r.Status.Releases()
	if mark == "" || r.Labels[limpetv1alpha1.LabelRelease] == mark {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{limpetv1alpha1.LabelRelease: mark}}})
	if err != nil {
		return fmt.Errorf("encode label: %w", err)
	}
	if err := c.Patch(ctx, r.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release IPReservation %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}
