package cluster

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
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

// ErrManySpreads is returned where more WorkloadSpreads name a target than a caller reads.
var ErrManySpreads = errors.New("too many WorkloadSpreads have targets of this name")

// LiveSpreadsOf returns the WorkloadSpreads of a target as the API server has them, including
// those that are too new for the cache. It selects as LiveStatesOf does. Users can name many kinds
// of one name: with client.Limit, more objects than the limit are an error.
func LiveSpreadsOf(
	ctx context.Context, live, cached client.Reader, namespace string, t workload.Target, options ...client.ListOption,
) ([]appsv1beta1.WorkloadSpread, error) {
	var list appsv1beta1.WorkloadSpreadList
	err := live.List(ctx, &list, append(options, client.InNamespace(namespace), client.MatchingFields{selectableTarget: t.Name})...)
	switch {
	case apierrors.IsBadRequest(err):
		return SpreadsOf(ctx, cached, namespace, t)
	case NotServed(err):
		return nil, nil
	case err == nil && list.Continue != "":
		err = ErrManySpreads
	}
	if err != nil {
		return nil, fmt.Errorf("list WorkloadSpreads of %s: %w", t, err)
	}
	var all []appsv1beta1.WorkloadSpread
	for i := range list.Items { // other requests may share the list
		if workload.TargetOf(list.Items[i].Spec.TargetReference) == t {
			all = append(all, list.Items[i])
		}
	}
	return all, nil
}
