package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Node returns the node of a name, or nil when there is none.
func Node(ctx context.Context, r client.Reader, name string) (*corev1.Node, error) {
	var node corev1.Node
	err := r.Get(ctx, client.ObjectKey{Name: name}, &node, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // every caller handles a node that does not exist
	case err != nil:
		return nil, fmt.Errorf("get node %s: %w", name, err)
	}
	return &node, nil
}

// Nodes returns all nodes.
func Nodes(ctx context.Context, r client.Reader) ([]*corev1.Node, error) {
	var list corev1.NodeList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	return nodes, nil
}

// NodeReadiness is a Part that keeps whether a node is Ready, and since when. Parts of several features copy the
// condition, and a part that left the time out would take it from the others.
func NodeReadiness(from, to *corev1.Node) {
	for _, c := range from.Status.Conditions {
		if c.Type == corev1.NodeReady {
			to.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
		}
	}
}
