package show

import (
	"context"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// nodeWait bounds how long the first pass waits for the Node, so that objects are created with their owner.
const nodeWait = 2 * time.Second

// ownNode is what the loop knows of the Node object of its node.
type ownNode struct {
	watched bool
	seen    atomic.Pointer[metav1.OwnerReference]
}

// owner returns the owner reference with which the garbage collector deletes the objects with their Node.
func (n *ownNode) owner() []metav1.OwnerReference {
	if seen := n.seen.Load(); seen != nil {
		return []metav1.OwnerReference{*seen}
	}
	return nil
}

// watchOwnNode keeps the owner current until ctx ends. While the server is away, the last known Node counts.
func (l *Loop) watchOwnNode(ctx context.Context) {
	l.keepWatching(ctx, "nodes", l.Node, nil, func(e watch.EventType, o *metav1.PartialObjectMetadata) {
		if e == watch.Deleted {
			l.node.seen.Store(nil)
			return
		}
		known := l.node.seen.Swap(&metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: l.Node, UID: o.UID})
		if known == nil || known.UID != o.UID {
			Wake(l.namespaces.changed) // the next pass gives the objects their owner
		}
	})
}

// waitForNode waits until the Node is known, for a short time at the most.
func (l *Loop) waitForNode(ctx context.Context) {
	if l.Pace.Start == 0 {
		return
	}
	timer := l.Clock.NewTimer(min(nodeWait, l.Pace.Start))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-l.namespaces.changed:
	}
}
