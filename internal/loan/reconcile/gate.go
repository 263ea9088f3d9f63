package reconcile

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// open removes the gate by its name, and writes on the pod which node has its address: an ADD elsewhere then waits for it.
func (l *Lender) open(ctx context.Context, of *corev1.Pod, home string) error {
	var known any // null takes away what a template was copied with
	if home != "" {
		known = home
	}
	change := map[string]any{
		"metadata": map[string]any{"uid": of.UID, "annotations": map[string]any{reservation.HomeAnnotation: known}},
		"spec":     map[string]any{"schedulingGates": []any{map[string]any{"$patch": "delete", "name": loan.Gate}}},
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	if err := l.Client.Patch(ctx, of.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		return fmt.Errorf("open gate %s of pod %s/%s: %w", loan.Gate, of.Namespace, of.Name, err)
	}
	return nil
}

// release gives up the reservations of an owner that does not return. The agents of their nodes end them.
func (l *Lender) release(ctx context.Context, f *facts) error {
	if !f.over {
		return nil
	}
	for at, held := range f.held {
		if f.loans[at] != nil {
			continue // it ends first
		}
		for i := range held {
			if err := cluster.GiveUp(ctx, l.Client, &held[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
