package agent

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// owner returns what makes the objects of this node go with its Node; none while the
// Node is not known.
func (w *world) owner(ctx context.Context, name string) ([]metav1.OwnerReference, error) {
	if !w.synced() {
		return nil, nil
	}
	var node corev1.Node
	err := w.cache.Get(ctx, client.ObjectKey{Name: name}, &node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get node %s: %w", name, err)
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}}, nil
}

// keepOwner leaves an object with the owner that it has while no other is known: without
// one it would stay for good.
func keepOwner(old, o client.Object) {
	if len(o.GetOwnerReferences()) == 0 {
		o.SetOwnerReferences(old.GetOwnerReferences())
	}
}

func sameOwner(a, b client.Object) bool {
	return apiequality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}
