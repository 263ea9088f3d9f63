package controller

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// fieldTarget is the field by which the API server selects PersistentPodStates, as the CRD
// says: of v1beta1 alone, for the API server refuses a CRD whose versions have the same
// selectable fields and different schemas.
const fieldTarget = "spec.targetRef.name"

// LiveStatesOf returns the PersistentPodStates of a target as the API server has them,
// also those that are too new for the cache. It asks for those whose target has that name
// alone, which is hardly ever more than one: a target is no part of an object's metadata, so
// the metadata would not tell a StatefulSet of Kubernetes from one of OpenKruise, and
// neither pages nor a limit make an answer smaller that has to be complete. An API server
// of 1.30 cannot select; there the cache has to do.
func LiveStatesOf(ctx context.Context, live, cached client.Reader, namespace string, t pin.Target) ([]appsv1beta1.PersistentPodState, error) {
	var list appsv1beta1.PersistentPodStateList
	err := live.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{fieldTarget: t.Name})
	switch {
	case apierrors.IsBadRequest(err):
		return StatesOf(ctx, cached, namespace, t)
	case err != nil:
		return nil, fmt.Errorf("list PersistentPodStates of %s: %w", t, err)
	}
	return slices.DeleteFunc(list.Items, func(s appsv1beta1.PersistentPodState) bool { return pin.TargetOf(&s) != t }), nil
}
