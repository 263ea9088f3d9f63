package agent

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// clusterView is the agent's view of the cluster: a cache of this node, in own mode of all
// nodes, and of this node's pods unless the agent has another source of pods. The objects are
// stripped to the fields that are read. It also holds the handle on the kernel's routes.
type clusterView struct {
	client *apiClient
	nodes  toolscache.SharedIndexInformer
	pods   toolscache.SharedIndexInformer // nil when the API server is not the source of pods
	links  *netlink.Handle
	filled atomic.Bool
	// changes receives when the cache is filled, and when a node was created, deleted or
	// changed.
	changes    chan struct{}
	ownNetwork bool
}

func newClusterView(config *rest.Config, node string, ownNetwork, watchPods bool) (*clusterView, error) {
	client, err := newAPIClient(config)
	if err != nil {
		return nil, err
	}
	v := &clusterView{client: client, changes: make(chan struct{}, 1), ownNetwork: ownNetwork}
	which := fields.Everything()
	if !ownNetwork {
		which = fields.OneTermEqualSelector("metadata.name", node)
	}
	v.nodes = toolscache.NewSharedIndexInformer(toolscache.NewListWatchFromClient(client.core, "nodes", "", which), &corev1.Node{}, 0, nil)
	err = v.nodes.SetTransform(stripNode)
	if err == nil && watchPods {
		err = v.watchPodsOf(config, node)
	}
	if err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	if v.links, err = netlink.NewHandle(); err != nil {
		return nil, fmt.Errorf("open netlink socket for routes: %w", err)
	}
	return v, nil
}

// watchPodsOf makes the cache of a node's pods. The API server sends metadata only: no environment of a pod.
func (v *clusterView) watchPodsOf(config *rest.Config, node string) error {
	all, err := metadata.NewForConfigAndClient(config, v.client.http)
	if err != nil {
		return err
	}
	pods := all.Resource(corev1.SchemeGroupVersion.WithResource("pods"))
	onNode := fields.OneTermEqualSelector("spec.nodeName", node).String()
	v.pods = toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = onNode
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = onNode
			return pods.Watch(ctx, o)
		},
	}, &metav1.PartialObjectMetadata{}, 0, nil)
	return v.pods.SetTransform(stripPod)
}

// start fills the cache and keeps it current until ctx ends. While the API server is
// unreachable, reads return the last known objects.
func (v *clusterView) start(ctx context.Context) error {
	if v.ownNetwork {
		if _, err := v.nodes.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { v.notify() },
			UpdateFunc: func(old, now any) { v.notifyIfChanged(old, now) },
			DeleteFunc: func(any) { v.notify() },
		}); err != nil {
			return fmt.Errorf("watch nodes: %w", err)
		}
	}
	var running sync.WaitGroup
	running.Go(func() { v.nodes.RunWithContext(ctx) })
	synced := []toolscache.InformerSynced{v.nodes.HasSynced}
	if v.pods != nil {
		running.Go(func() { v.pods.RunWithContext(ctx) })
		synced = append(synced, v.pods.HasSynced)
	}
	v.filled.Store(toolscache.WaitForCacheSync(ctx.Done(), synced...))
	v.notify()
	running.Wait()
	return nil
}

func (v *clusterView) notify() {
	select {
	case v.changes <- struct{}{}:
	default: // a notification is pending
	}
}

// notifyIfChanged skips updates of a Node that change no route, such as heartbeats.
func (v *clusterView) notifyIfChanged(old, now any) {
	a, ok := old.(*corev1.Node)
	b, ok2 := now.(*corev1.Node)
	if !ok || !ok2 || !apiequality.Semantic.DeepEqual(a.Spec, b.Spec) || !apiequality.Semantic.DeepEqual(a.Status, b.Status) {
		v.notify()
	}
}

// synced reports whether the cache has been filled once.
func (v *clusterView) synced() bool { return v.filled.Load() }

// Run has nothing to do: the cache watches pods.
func (v *clusterView) Run(context.Context) error { return nil }

// Pods returns the pods that the API server has bound to this node.
func (v *clusterView) Pods(context.Context) (list plan.PodList, known bool, err error) {
	if !v.synced() {
		return list, false, nil
	}
	return plan.PodList{Items: stored[corev1.Pod](v.pods)}, true, nil
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
	if !v.synced() {
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

func stripNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	n.Spec, n.Status = corev1.NodeSpec{PodCIDRs: n.Spec.PodCIDRs}, corev1.NodeStatus{Addresses: n.Status.Addresses}
	n.ManagedFields, n.Annotations, n.Labels = nil, nil, nil
	return n, nil
}
