package agent

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// world is what the agent sees outside its node's disk: the API server, of which it
// keeps this node's pods and this node, in own mode all nodes, stripped to what is read;
// and the kernel's routes.
type world struct {
	client client.Client
	cache  cache.Cache
	links  *netlink.Handle
	ready  atomic.Bool
	// news is sent to when the cache is filled, and when a node came, went or moved.
	news       chan struct{}
	ownNetwork bool
}

func newWorld(config *rest.Config, node string, ownNetwork bool) (*world, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	w := &world{news: make(chan struct{}, 1), ownNetwork: ownNetwork}
	mapper := kinds()
	nodes := cache.ByObject{Transform: stripNode}
	if !ownNetwork {
		nodes.Field = fields.OneTermEqualSelector("metadata.name", node)
	}
	var err error
	if w.client, err = client.New(config, client.Options{Scheme: scheme, Mapper: mapper}); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	w.cache, err = cache.New(config, cache.Options{Scheme: scheme, Mapper: mapper, ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}:  {Field: fields.OneTermEqualSelector("spec.nodeName", node), Transform: stripPod},
		&corev1.Node{}: nodes,
	}})
	if err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	if w.links, err = netlink.NewHandle(); err != nil {
		return nil, fmt.Errorf("talk to the kernel about routes: %w", err)
	}
	return w, nil
}

// kinds says where the API serves what the agent uses. It is written down rather than
// asked for, because the agent must start while the API server is away.
func kinds() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	m.Add(v1alpha1.GroupVersion.WithKind("IPReservation"), meta.RESTScopeNamespace)
	m.Add(v1alpha1.GroupVersion.WithKind("NodeIPPool"), meta.RESTScopeRoot)
	return m
}

// start fills the cache and keeps it until ctx ends. While the API server is away
// the agent goes on with what it has.
func (w *world) start(ctx context.Context) error {
	if _, err := w.cache.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	informer, err := w.cache.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	if w.ownNetwork {
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { w.poke() },
			UpdateFunc: func(old, now any) { w.pokeIfMoved(old, now) },
			DeleteFunc: func(any) { w.poke() },
		}); err != nil {
			return fmt.Errorf("watch nodes: %w", err)
		}
	}
	go func() {
		w.ready.Store(w.cache.WaitForCacheSync(ctx))
		w.poke()
	}()
	return w.cache.Start(ctx)
}

func (w *world) poke() {
	select {
	case w.news <- struct{}{}:
	default: // one is on its way
	}
}

// pokeIfMoved leaves out the heartbeats of a large cluster, which change no route.
func (w *world) pokeIfMoved(old, now any) {
	a, ok := old.(*corev1.Node)
	b, ok2 := now.(*corev1.Node)
	if !ok || !ok2 || !apiequality.Semantic.DeepEqual(a.Spec, b.Spec) || !apiequality.Semantic.DeepEqual(a.Status, b.Status) {
		w.poke()
	}
}

// synced reports whether the cache holds what the API server has.
func (w *world) synced() bool { return w.ready.Load() }

func (w *world) pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := w.cache.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list pods of this node: %w", err)
	}
	return list.Items, nil
}

func (w *world) nodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := w.cache.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list.Items, nil
}

// stripPod drops what the agent does not read, which is nearly all of a pod.
func stripPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	p.Spec, p.Status = corev1.PodSpec{NodeName: p.Spec.NodeName}, corev1.PodStatus{}
	p.ManagedFields, p.Labels, p.OwnerReferences = nil, nil, nil
	maps.DeleteFunc(p.Annotations, func(key, _ string) bool {
		return key != reservation.RetainAnnotation && key != reservation.ModeAnnotation
	})
	return p, nil
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
