package cluster

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/workload"
)

// SpreadsByTarget indexes WorkloadSpreads by their target.
func SpreadsByTarget() Index {
	return By(indexTarget, func(s *appsv1beta1.WorkloadSpread) []string {
		return []string{workload.TargetOf(s.Spec.TargetReference).String()}
	})
}

// SpreadsOf returns the WorkloadSpreads of a target.
func SpreadsOf(ctx context.Context, r client.Reader, namespace string, t workload.Target) ([]appsv1beta1.WorkloadSpread, error) {
	var list appsv1beta1.WorkloadSpreadList
	err := r.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingFields{indexTarget: t.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list WorkloadSpreads of %s: %w", t, err)
	}
	return list.Items, nil
}

// LiveSpreadsOf returns the WorkloadSpreads of a target as the API server has them, including
// those that are too new for the cache. It selects as LiveStatesOf does.
func LiveSpreadsOf(ctx context.Context, live, cached client.Reader, namespace string, t workload.Target) ([]appsv1beta1.WorkloadSpread, error) {
	var list appsv1beta1.WorkloadSpreadList
	err := live.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{selectableTarget: t.Name})
	switch {
	case apierrors.IsBadRequest(err):
		return SpreadsOf(ctx, cached, namespace, t)
	case err != nil:
		return nil, fmt.Errorf("list WorkloadSpreads of %s: %w", t, err)
	}
	return slices.DeleteFunc(list.Items, func(s appsv1beta1.WorkloadSpread) bool {
		return workload.TargetOf(s.Spec.TargetReference) != t
	}), nil
}
