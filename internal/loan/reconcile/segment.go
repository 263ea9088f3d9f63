package reconcile

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// addSegments adds which L2 segments the nodes share that the owner has to do with. No Node says whose a range is there.
func (l *Lender) addSegments(ctx context.Context, f *facts) error {
	f.segments, f.owners = map[string]string{}, map[attachment]string{}
	if err := l.addHolders(ctx, f); err != nil {
		return err
	}
	for _, at := range f.attachments() {
		if at.network == reservation.FollowNetwork {
			continue
		}
		home := f.homeOf(at)
		lost := f.loans[at] != nil && f.loans[at].Status.Borrower == loan.Unknown
		for node := range f.nodesOf(at) {
			pool, err := l.sharedPool(ctx, node)
			if err != nil {
				return err
			}
			f.segments[node] = pool.Network
			if lost && node != home && pool.Network == at.network && f.shownOn(at, node) && fit.HasAny(limpetv1alpha1.NodeIPPool{Status: pool}, f.ips(at)) {
				f.owners[at] = node
			}
		}
		if f.segments[home] == "" {
			if err := l.addSegmentOf(ctx, f, home, at.network); err != nil {
				return err
			}
		}
	}
	return nil
}

// addHolders adds the segments of the nodes that show addresses: which of them is home depends on it.
func (l *Lender) addHolders(ctx context.Context, f *facts) error {
	for at, held := range f.held {
		for i := range held {
			if at.network == reservation.FollowNetwork {
				continue
			}
			pool, err := l.sharedPool(ctx, held[i].Status.Node)
			if err != nil {
				return err
			}
			f.segments[held[i].Status.Node] = pool.Network
		}
	}
	return nil
}

// nodesOf are the nodes that have to do with the addresses of an interface.
func (f *facts) nodesOf(at attachment) map[string]bool {
	nodes := map[string]bool{f.homeOf(at): true}
	if f.pod != nil {
		nodes[f.pod.Spec.NodeName] = true
	}
	for i := range f.held[at] {
		nodes[f.held[at][i].Status.Node] = true
	}
	return nodes
}

// addSegmentOf adds that a node which does not show a network is on a segment there, if others show the network as one: it is gone, and
// took along what it showed, or was made again.
func (l *Lender) addSegmentOf(ctx context.Context, f *facts, node, network string) error {
	pools, err := cluster.PoolsOf(ctx, l.Client, node)
	if err != nil || slices.ContainsFunc(pools, func(p limpetv1alpha1.NodeIPPool) bool { return p.Status.Network == network }) {
		return err
	}
	pools, err = cluster.Pools(ctx, l.Client)
	if slices.ContainsFunc(pools, func(p limpetv1alpha1.NodeIPPool) bool { return p.Status.SharedNetwork && p.Status.Network == network }) {
		f.segments[node] = network
	}
	return err
}

// sharedPool returns the pool of a node in a network that nodes share; an empty one for none.
func (l *Lender) sharedPool(ctx context.Context, node string) (none limpetv1alpha1.NodeIPPoolStatus, err error) {
	pools, err := cluster.PoolsOf(ctx, l.Client, node)
	for i := range pools {
		if pools[i].Status.SharedNetwork {
			return pools[i].Status, err
		}
	}
	return none, err
}

// ownerBeside returns another node of the segment that has addresses of an owner in its ranges: by a mistake, because the range went
// to it, or because a stolen token of home shows addresses of that node. Which pod it has given them is not known.
func (l *Lender) ownerBeside(ctx context.Context, f *facts, at attachment) (string, error) {
	var pools limpetv1alpha1.NodeIPPoolList
	if err := l.Client.List(ctx, &pools, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list NodeIPPools: %w", err)
	}
	for i := range pools.Items {
		s := pools.Items[i].Status
		if s.SharedNetwork && s.Network == at.network && s.Node != f.homeOf(at) && fit.HasAny(pools.Items[i], f.ips(at)) {
			return s.Node, nil
		}
	}
	return "", nil
}

// shownOn reports whether a node shows that the owner has the addresses there.
func (f *facts) shownOn(at attachment, node string) bool {
	for i := range f.held[at] {
		if s := f.held[at][i].Status; s.Node == node && s.IPs == f.ips(at) {
			return true
		}
	}
	return false
}

// poolOfSegment keeps the network of a node, and where that is on a segment, its ranges: one of each family. An agent may write any
// text.
func poolOfSegment(from, to *limpetv1alpha1.NodeIPPool) {
	s := from.Status
	if to.Status.Node, to.Status.Network = s.Node, s.Network; s.SharedNetwork && len(s.Ranges) <= 2 {
		to.Status.SharedNetwork, to.Status.Ranges = true, s.Ranges
	}
}

// ownersOnSegment are the owners whom a node concerns of which it became known on which segment it is.
func (l *Lender) ownersOnSegment(ctx context.Context, o client.Object) []reconcile.Request {
	return l.ownersOn(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.(*limpetv1alpha1.NodeIPPool).Status.Node}})
}

// segmentChanged passes what changes on which segment a node is.
var segmentChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList && segmentOf(e.Object) != "" },
	UpdateFunc: func(e event.UpdateEvent) bool { return segmentOf(e.ObjectOld) != segmentOf(e.ObjectNew) },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

func segmentOf(o client.Object) string {
	if s := o.(*limpetv1alpha1.NodeIPPool).Status; s.SharedNetwork {
		return s.Network
	}
	return ""
}
