package agent

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// clusterView is the agent's view of the cluster: a cache of this node, in own mode of all
// nodes, and of this node's pods unless the agent has another source of pods. The objects are
// stripped to the fields that are read. It also holds the handle on the kernel's routes.
type clusterView struct {
	client client.Client
	cache  cache.Cache
	links  *netlink.Handle
	filled atomic.Bool
	// changes receives when the cache is filled, and when a node was created, deleted or
	// changed.
	changes    chan struct{}
	ownNetwork bool
	watchPods  bool // the API server is the source of pods
}

func newClusterView(config *rest.Config, node string, ownNetwork, watchPods bool) (*clusterView, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	v := &clusterView{changes: make(chan struct{}, 1), ownNetwork: ownNetwork, watchPods: watchPods}
	mapper := kinds()
	nodes := cache.ByObject{Transform: stripNode}
	if !ownNetwork {
		nodes.Field = fields.OneTermEqualSelector("metadata.name", node)
	}
	var err error
	if v.client, err = client.New(config, client.Options{Scheme: scheme, Mapper: mapper}); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	v.cache, err = cache.New(config, cache.Options{Scheme: scheme, Mapper: mapper, ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}:  {Field: fields.OneTermEqualSelector("spec.nodeName", node), Transform: stripPod},
		&corev1.Node{}: nodes,
	}})
	if err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	if v.links, err = netlink.NewHandle(); err != nil {
		return nil, fmt.Errorf("open netlink socket for routes: %w", err)
	}
	return v, nil
}

// kinds maps the kinds that the agent uses to API resources. The mapping is static, because
// the agent must start while the API server is unreachable.
func kinds() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	m.Add(v1alpha1.GroupVersion.WithKind("IPReservation"), meta.RESTScopeNamespace)
	m.Add(v1alpha1.GroupVersion.WithKind("NodeIPPool"), meta.RESTScopeRoot)
	return m
}

// start fills the cache and keeps it current until ctx ends. While the API server is
// unreachable, reads return the last known objects.
func (v *clusterView) start(ctx context.Context) error {
	if v.watchPods {
		if _, err := v.cache.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch pods: %w", err)
		}
	}
	informer, err := v.cache.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	if v.ownNetwork {
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { v.notify() },
			UpdateFunc: func(old, now any) { v.notifyIfChanged(old, now) },
			DeleteFunc: func(any) { v.notify() },
		}); err != nil {
			return fmt.Errorf("watch nodes: %w", err)
		}
	}
	go func() {
		v.filled.Store(v.cache.WaitForCacheSync(ctx))
		v.notify()
	}()
	return v.cache.Start(ctx)
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
func (v *clusterView) Pods(ctx context.Context) (list plan.PodList, known bool, err error) {
	if !v.synced() {
		return list, false, nil
	}
	var pods corev1.PodList
	if err := v.cache.List(ctx, &pods); err != nil {
		return list, false, fmt.Errorf("list pods of this node: %w", err)
	}
	return plan.PodList{Items: pods.Items}, true, nil
}

func (v *clusterView) nodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := v.cache.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list.Items, nil
}

// nodeOwner returns the owner reference to this node's Node object, with which the garbage
// collector deletes the node's API objects. It is empty while the Node is not known.
func (v *clusterView) nodeOwner(ctx context.Context, name string) ([]metav1.OwnerReference, error) {
	if !v.synced() {
		return nil, nil
	}
	var node corev1.Node
	err := v.cache.Get(ctx, client.ObjectKey{Name: name}, &node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get node %s: %w", name, err)
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}}, nil
}

// stripPod drops the fields of a pod that the agent does not read, to save memory.
func stripPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	stripped := plan.Strip(p)
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
