package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NotServed tells that a list failed because the API server does not serve the kind: its CRD was
// deleted, and all objects with it.
func NotServed(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// CRDs are the definitions of all kinds of Limpet. The last one is there with deploy/node-network alone, as is the right
// to read it.
var CRDs = []string{
	"persistentpodstates.apps.kruise.io", "workloadspreads.apps.kruise.io", "podunavailablebudgets.policy.kruise.io",
	"ipreservations.limpet.dev", "nodeippools.limpet.dev", "disruptionbooks.limpet.dev", "borrowedaddresses.limpet.dev",
	"distributedpoddisruptionbudgets.limpet.dev",
	"nodenetworks.limpet.dev",
}

// Served reports whether a CRD exists. A CRD that is being deleted takes all its objects along. A reader
// that may not read CRDs cannot tell, and takes the kind for served.
func Served(ctx context.Context, live client.Reader, name string) (bool, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	switch err := live.Get(ctx, client.ObjectKey{Name: name}, crd); {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("get CRD %s: %w", name, err)
	}
	return crd.DeletionTimestamp == nil, nil
}
