package cluster

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
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

// nodesOfPage is how many whole Nodes one read has.
const nodesOfPage = 500

// LiveNodes reads all nodes past the cache, and keeps of each what a need does.
func LiveNodes(ctx context.Context, r client.Reader, need Need) (nodes []*corev1.Node, err error) {
	for next := ""; ; {
		var page corev1.NodeList
		if err := r.List(ctx, &page, client.Limit(nodesOfPage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for i := range page.Items {
			kept, err := need.keep(&page.Items[i])
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, kept.(*corev1.Node))
		}
		if next = page.Continue; next == "" {
			return nodes, nil
		}
	}
}

// NodeReadiness is a Part that keeps whether a node is Ready. CacheOptions adds since when.
func NodeReadiness(from, to *corev1.Node) {
	for _, c := range from.Status.Conditions {
		if c.Type == corev1.NodeReady {
			to.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
}

// notReady notes when this process first saw a node say that it is not Ready. The node tells a time of its own clock,
// which may be wrong, as the clock of this machine may be.
type notReady struct {
	clock clock.PassiveClock
	since sync.Map // by the UID of the node
}

// note is a Part that keeps since when a node is not Ready.
func (n *notReady) note(_, to *corev1.Node) {
	for i := range to.Status.Conditions { // only Ready, if any
		c := &to.Status.Conditions[i]
		if c.Status != corev1.ConditionFalse {
			n.since.Delete(to.UID)
			continue
		}
		first, _ := n.since.LoadOrStore(to.UID, metav1.NewTime(n.clock.Now()))
		c.LastTransitionTime, _ = first.(metav1.Time)
	}
}

// forget drops a node that was deleted.
func (n *notReady) forget(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	if node, ok := o.(*corev1.Node); ok {
		n.since.Delete(node.UID)
	}
}
