package cluster_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// pool makes a pool of a node.
func pool(t *testing.T, node string, i int) {
	t.Helper()
	p := &limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{Node: node, Network: "net"}}
	p.Name = fmt.Sprintf("%s.net%02d", node, i)
	env.Create(t, p)
}

// holds waits until a cache holds some objects of the first node, and one of the second.
func holds(t *testing.T, c client.Reader, want int, nodes ...testenv.Node) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	testenv.Eventually(t, func() error {
		for i, node := range nodes {
			var list limpetv1alpha1.NodeIPPoolList
			if err := c.List(t.Context(), &list, client.MatchingFields{"limpet.node": node.Name}); err != nil {
				return err
			}
			if i == 0 {
				clear(names)
				for _, o := range list.Items {
					names[o.Name] = true
				}
			}
			if n := []int{want, 1}[i]; len(list.Items) != n {
				return fmt.Errorf("the cache holds %d objects of node %d, want %d", len(list.Items), i, n)
			}
		}
		return nil
	})
	return names
}

// A stolen token of an agent may create objects of its node without end. The cache holds some of
// them, whether they were there before it or not, and all of other nodes.
func TestTheCacheHoldsSomeObjectsOfANode(t *testing.T) {
	const most = 3
	needs := cluster.Needs{
		Objects: []cluster.Need{cluster.Of(func(from, to *limpetv1alpha1.NodeIPPool) { to.Status = from.Status }).
			AtMost(most, func(o client.Object) string { return o.(*limpetv1alpha1.NodeIPPool).Status.Node })},
		Indexes: []cluster.Index{cluster.PoolsByNode()},
	}
	node, other := env.Node(t), env.Node(t)
	for i := range most + 2 {
		pool(t, node.Name, i)
	}
	late := cached(t, needs)
	holds(t, late, most, node)
	pool(t, node.Name, most+2)
	pool(t, other.Name, 0) // which the watch shows after it
	held := holds(t, late, most, node, other)

	var left *limpetv1alpha1.NodeIPPool
	for i := range most + 2 {
		p := &limpetv1alpha1.NodeIPPool{}
		env.Read(t, client.ObjectKey{Name: fmt.Sprintf("%s.net%02d", node.Name, i)}, p)
		if held[p.Name] {
			env.Change(t, p, func() { p.Status.Free++ }) // which stays
		} else {
			left = p
		}
	}
	holds(t, late, most, node, other)
	for name := range held {
		p := &limpetv1alpha1.NodeIPPool{}
		p.Name = name
		env.Remove(t, p)
		break
	}
	holds(t, late, most-1, node, other)
	env.Change(t, left, func() { left.Status.Free++ })
	if now := holds(t, late, most, node, other); !now[left.Name] {
		t.Errorf("the cache holds %v, want %s among them once there is room", now, left.Name)
	}
}

// Objects that the live Node does not own, however many, take no room from those of its agent.
func TestObjectsThatNobodyBelievesDisplaceNone(t *testing.T) {
	const most = 3
	needs := cluster.Needs{
		Objects: []cluster.Need{
			cluster.Of[*corev1.Node](),
			cluster.Of(cluster.NodeOwner, func(from, to *limpetv1alpha1.NodeIPPool) { to.Status = from.Status }).
				AtMost(most, func(o client.Object) string { return o.(*limpetv1alpha1.NodeIPPool).Status.Node }),
		},
		Indexes: []cluster.Index{cluster.PoolsByNode()},
	}
	node, another := env.Node(t), env.Node(t)
	c := cached(t, needs)
	if _, err := cluster.Nodes(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	forged := func(i int, of string, uid types.UID) {
		p := &limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{Node: of, Network: "net"}}
		p.Name = fmt.Sprintf("%s.forged%02d", node.Name, i)
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: of, UID: uid}}
		env.Create(t, p)
	}
	for i := range most + 2 {
		forged(i, node.Name, "forged")
	}
	forged(most+2, "no-node", "forged")
	forged(most+3, node.Name, another.UID)
	holds(t, c, most, node)
	for i := range most {
		pool(t, node.Name, i)
	}
	holds(t, c, 2*most, node)
	believed, err := cluster.PoolsOf(t.Context(), c, node.Name)
	if err != nil || len(believed) != most {
		t.Errorf("%d pools are believed, want %d: %v", len(believed), most, err)
	}
}

// A list is made of pages: the objects may not fit into memory at a time. Nothing gets lost.
func TestABoundedListHasAllPages(t *testing.T) {
	const made, most = 130, 120
	node := env.Node(t)
	needs := cluster.Needs{
		Objects: []cluster.Need{cluster.Of[*limpetv1alpha1.NodeIPPool]().
			AtMost(most, func(o client.Object) string { return o.(*limpetv1alpha1.NodeIPPool).Status.Node })},
	}
	for i := range made {
		pool(t, node.Name, i)
	}
	var asked atomic.Int32
	lw := &toolscache.ListWatch{ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		asked.Add(1)
		list := &limpetv1alpha1.NodeIPPoolList{}
		return list, env.Client.List(ctx, list, &client.ListOptions{Limit: o.Limit, Continue: o.Continue, Raw: &o})
	}, WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		return nil, apierrors.NewMethodNotSupported(limpetv1alpha1.GroupVersion.WithResource("nodeippools").GroupResource(), "watch")
	}}
	informer := cluster.CacheOptions(needs).NewInformer(lw, &limpetv1alpha1.NodeIPPool{}, 0, toolscache.Indexers{})
	go informer.RunWithContext(t.Context())
	testenv.Eventually(t, func() error {
		if n := len(informer.GetStore().ListKeys()); n != most {
			return fmt.Errorf("the cache holds %d objects, want %d", n, most)
		}
		return nil
	})
	if n := asked.Load(); n < 3 {
		t.Errorf("%d pages were asked for, want 3", n)
	}
}

// Between two pages the version of the list may be compacted. Then the list begins again, and no object gets lost.
func TestABoundedListThatExpiresBeginsAgain(t *testing.T) {
	needs := cluster.Needs{
		Objects: []cluster.Need{cluster.Of[*limpetv1alpha1.NodeIPPool]().
			AtMost(10, func(o client.Object) string { return o.(*limpetv1alpha1.NodeIPPool).Status.Node })},
	}
	var lists atomic.Int32
	lw := &toolscache.ListWatch{ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list := &limpetv1alpha1.NodeIPPoolList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: make([]limpetv1alpha1.NodeIPPool, 2)}
		switch {
		case o.Continue == "":
			lists.Add(1)
			list.Continue = "next"
			list.Items[0].Name, list.Items[1].Name = "a", "b"
		case lists.Load() == 1:
			return nil, apierrors.NewResourceExpired("the continue parameter is too old")
		default:
			list.Items[0].Name, list.Items[1].Name = "c", "d"
		}
		return list, nil
	}, WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		return nil, apierrors.NewMethodNotSupported(limpetv1alpha1.GroupVersion.WithResource("nodeippools").GroupResource(), "watch")
	}}
	informer := cluster.CacheOptions(needs).NewInformer(lw, &limpetv1alpha1.NodeIPPool{}, 0, toolscache.Indexers{})
	go informer.RunWithContext(t.Context())
	testenv.Eventually(t, func() error {
		if !informer.HasSynced() {
			return fmt.Errorf("not synced after %d lists", lists.Load())
		}
		return nil
	})
	if n := len(informer.GetStore().ListKeys()); n != 4 || lists.Load() < 2 {
		t.Errorf("the cache holds %d objects after %d lists, want 4 after 2 or more", n, lists.Load())
	}
}
