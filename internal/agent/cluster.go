package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const (
	// podsLater is how much later than others a broken watch of pods is opened again: it costs up to three
	// requests, and what pods ask for changes rarely.
	podsLater = 3
	// nodesSooner is how much sooner a broken watch of all nodes is: it tells the routes to new nodes.
	nodesSooner = 4
)

// clusterView is the agent's view of the cluster: where addresses follow a cache of all nodes, and one of this
// node's pods unless the agent has another source of pods. The objects are stripped to the fields
// that are read. It also holds the handle on the kernel's routes.
type clusterView struct {
	nodes toolscache.SharedIndexInformer // nil unless addresses follow
	nets  toolscache.SharedIndexInformer // of the NodeNetwork; nil unless addresses follow
	loans toolscache.SharedIndexInformer // nil unless addresses follow
	pods  toolscache.SharedIndexInformer // nil when the API server is not the source of pods
	links *netlink.Handle
	// filter leads to nftables; nil unless below flannel.
	filter *nl.NetlinkSocket
	// packets is a socket that sends to interfaces; -1 without the right to.
	packets int
	// follow keeps the ranges of services until its context ends; nil unless addresses follow.
	follow   func(context.Context)
	services atomic.Pointer[[]netip.Prefix]
	// changes receives when a part of the cache is filled, and when a node was created, deleted or
	// changed.
	changes chan struct{}
	// lent receives when a loan was made, changed or removed.
	lent chan struct{}
}

func newClusterView(client *show.Client, c Config) (*clusterView, error) {
	v := &clusterView{changes: make(chan struct{}, 1), lent: make(chan struct{}, 1)}
	var err error
	if c.lends() {
		all := toolscache.NewListWatchFromClient(client.Core, "nodes", "", fields.Everything())
		v.nodes = toolscache.NewSharedIndexInformer(newStagger(c, 0, c.Pace.Reconnect/nodesSooner).listWatch(all), &corev1.Node{}, 0, nil)
		err = errors.Join(v.nodes.SetTransform(func(o any) (any, error) { return stripNode(o, c.Node) }), v.watchLoans(client, c))
		v.watchNodeNetwork(client, c)
		v.follow = func(ctx context.Context) { v.followServices(ctx, client, c.Clock) }
	}
	if err == nil && c.Pods == nil {
		err = v.watchPods(client, c)
	}
	if err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	if v.links, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open netlink socket for routes: %w", err)
	}
	if c.Flannel {
		if v.filter, err = openNFT(); err != nil {
			return nil, err
		}
		v.packets, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil && !errors.Is(err, unix.EPERM) {
			return nil, fmt.Errorf("open socket for announcements: %w", err)
		}
	}
	return v, nil
}

// watchPods makes the cache of the node's pods. The API server sends metadata only: no environment of a pod.
func (v *clusterView) watchPods(client *show.Client, c Config) error {
	all, err := metadata.NewForConfigAndClient(c.REST, client.HTTP)
	if err != nil {
		return err
	}
	pods := all.Resource(corev1.SchemeGroupVersion.WithResource("pods"))
	onNode := fields.OneTermEqualSelector("spec.nodeName", c.Node).String()
	onThisNode := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = onNode
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = onNode
			return pods.Watch(ctx, o)
		},
	}
	v.pods = toolscache.NewSharedIndexInformer(newStagger(c, c.Pace.Start, podsLater*c.Pace.Reconnect).listWatch(onThisNode), &metav1.PartialObjectMetadata{}, 0, nil)
	return v.pods.SetTransform(stripPod)
}

// start fills the cache and keeps it current until ctx ends. While the API server is
// unreachable, reads return the last known objects.
func (v *clusterView) start(ctx context.Context) error {
	var running sync.WaitGroup
	for _, in := range []toolscache.SharedIndexInformer{v.nodes, v.nets} {
		if in == nil {
			continue
		}
		if _, err := in.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { v.notify() },
			UpdateFunc: func(old, now any) { v.notifyIfChanged(old, now) },
			DeleteFunc: func(any) { v.notify() },
		}); err != nil {
			return fmt.Errorf("watch nodes and their settings: %w", err)
		}
		running.Go(func() { in.RunWithContext(ctx) })
	}
	if v.nodes != nil {
		if _, err := v.loans.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { show.Wake(v.lent) },
			UpdateFunc: func(any, any) { show.Wake(v.lent) },
			DeleteFunc: func(any) { show.Wake(v.lent) },
		}); err != nil {
			return fmt.Errorf("watch loans: %w", err)
		}
		running.Go(func() { v.loans.RunWithContext(ctx) })
	}
	if v.pods != nil {
		running.Go(func() { v.pods.RunWithContext(ctx) })
	}
	for _, in := range []toolscache.SharedIndexInformer{v.nodes, v.nets, v.loans, v.pods} {
		running.Go(func() { // the network waits for nodes alone
			if in != nil && toolscache.WaitForCacheSync(ctx.Done(), in.HasSynced) {
				v.notify()
			}
		})
	}
	if v.follow != nil {
		v.follow(ctx)
	}
	running.Wait()
	<-ctx.Done()
	return nil
}

func (v *clusterView) notify() { show.Wake(v.changes) }

// notifyIfChanged skips updates that change neither a route nor a setting, such as heartbeats of a Node.
func (v *clusterView) notifyIfChanged(old, now any) {
	switch a := old.(type) {
	case *corev1.Node:
		b, ok := now.(*corev1.Node)
		if ok && apiequality.Semantic.DeepEqual(a.Spec, b.Spec) && apiequality.Semantic.DeepEqual(a.Status, b.Status) && maps.Equal(a.Labels, b.Labels) {
			return
		}
	case *v1alpha1.NodeNetwork:
		if b, ok := now.(*v1alpha1.NodeNetwork); ok && a.UID == b.UID && a.Generation == b.Generation {
			return // the controller writes the status
		}
	}
	v.notify()
}

// knowsNodes reports whether the cache has had all nodes once.
func (v *clusterView) knowsNodes() bool { return v.nodes != nil && v.nodes.HasSynced() }

// Run has nothing to do: the cache watches pods.
func (v *clusterView) Run(context.Context) error { return nil }

// Pods returns the pods that the API server has bound to this node.
func (v *clusterView) Pods(context.Context) (list plan.PodList, known bool, err error) {
	if !v.pods.HasSynced() {
		return list, false, nil
	}
	return plan.PodList{Items: stored[corev1.Pod](v.pods)}, true, nil
}

// lacks reports whether the cache has a node whose ranges have none of some addresses.
func (v *clusterView) lacks(name string, addrs []netip.Addr) bool {
	o, _, _ := v.nodes.GetStore().GetByKey(name) // the store in memory returns no error
	settings, _, _ := v.nodeNetwork()
	n, found := o.(*corev1.Node)
	return found && plan.Lacks(*n, settings.Spec.Ranges, addrs)
}

// allNodes returns the nodes in the cache.
func (v *clusterView) allNodes() []corev1.Node { return stored[corev1.Node](v.nodes) }

// stored returns copies of the objects in a cache. They share maps and slices with the cache, and must not be changed.
func stored[T any](in toolscache.SharedIndexInformer) []T {
	objects := in.GetStore().List()
	all := make([]T, 0, len(objects))
	for _, o := range objects {
		if object, ok := o.(*T); ok {
			all = append(all, *object)
		}
	}
	return all
}

// nodeOwner returns the owner reference to this node's Node object, with which the garbage
// collector deletes the node's API objects. It is empty while the Node is not known.
func (v *clusterView) nodeOwner(name string) []metav1.OwnerReference {
	if !v.knowsNodes() {
		return nil
	}
	o, _, _ := v.nodes.GetStore().GetByKey(name) // the store in memory returns no error
	node, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}}
}

// stripPod drops the fields of a pod that the agent does not read, to save memory.
func stripPod(o any) (any, error) {
	p, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return o, nil
	}
	stripped := plan.Strip(&corev1.Pod{ObjectMeta: p.ObjectMeta})
	return &stripped, nil
}

// stripNode drops what the agent does not read of a Node. Labels and annotations are read of its own node alone.
func stripNode(o any, own string) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	n.Spec, n.Status = corev1.NodeSpec{PodCIDRs: n.Spec.PodCIDRs}, corev1.NodeStatus{Addresses: n.Status.Addresses}
	n.ManagedFields = nil
	if n.Name != own {
		n.Labels, n.Annotations = nil, nil
	}
	return n, nil
}
