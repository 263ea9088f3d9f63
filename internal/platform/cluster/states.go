package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// StatesOf returns the PersistentPodStates of a target.
func StatesOf(ctx context.Context, r client.Reader, namespace string, t workload.Target) ([]appsv1beta1.PersistentPodState, error) {
	var list appsv1beta1.PersistentPodStateList
	err := r.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingFields{indexTarget: t.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list PersistentPodStates of %s: %w", t, err)
	}
	return list.Items, nil
}

// selectableTarget is the field by which the API server selects PersistentPodStates. Only
// v1beta1 of the CRD declares it: the API server refuses a CRD whose versions declare the
// same selectable field and have different schemas.
const selectableTarget = "spec.targetRef.name"

// LiveStatesOf returns the PersistentPodStates of a target as the API server has them,
// including those that are too new for the cache.
//
// The API server selects by the target's name, which hardly ever matches more than one
// object. Kind and group are compared here, since an object's metadata does not tell them.
// An API server of Kubernetes 1.30 cannot select by fields; the cache answers there, and where
// the kind is not served.
func LiveStatesOf(ctx context.Context, live, cached client.Reader, namespace string, t workload.Target) ([]appsv1beta1.PersistentPodState, error) {
	var list appsv1beta1.PersistentPodStateList
	err := live.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{selectableTarget: t.Name})
	switch {
	case apierrors.IsBadRequest(err), NotServed(err):
		return StatesOf(ctx, cached, namespace, t)
	case err != nil:
		return nil, fmt.Errorf("list PersistentPodStates of %s: %w", t, err)
	}
	var all []appsv1beta1.PersistentPodState
	for i := range list.Items { // other requests may share the list
		if workload.TargetOf(list.Items[i].Spec.TargetReference) == t {
			all = append(all, list.Items[i])
		}
	}
	return all, nil
}
