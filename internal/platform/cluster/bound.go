package cluster

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// AtMost bounds how many objects of one writer the cache holds, such as those of one node. The
// agent of a node may create any number of objects. Objects that the live Node does not own have one bound for all nodes
// together. Objects beyond the bound are left out, until others are deleted and the object changes or is listed again.
func (n Need) AtMost(most int, writer func(client.Object) string) Need {
	n.most, n.writer = most, writer
	return n
}

// informers makes informers that reconnect soon, and those of bounded needs without the objects that are too many.
// Pods are packed, unless a feature needs whole ones.
func informers(byKind map[reflect.Type]*Need, indexes map[reflect.Type]map[string]Index, n *notReady) func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
	nodes := &atomic.Pointer[toolscache.SharedIndexInformer]{}
	return func(lw toolscache.ListerWatcher, o runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		lw = reconnect(lw, clock.RealClock{})
		kind := reflect.TypeOf(o)
		need := byKind[kind]
		if need != nil && need.most > 0 {
			need.nodes = nodes
			b := &bounded{need: need, from: toolscache.ToListerWatcherWithContext(lw)}
			lw = &toolscache.ListWatch{ListWithContextFunc: b.list, WatchFuncWithContext: b.watch}
		}
		_, isPod := o.(*corev1.Pod)
		if isPod && need != nil && len(need.parts) > 0 || len(indexes[kind]) > 0 {
			return newPacking(lw, o, resync, indexes[kind])
		}
		informer := toolscache.NewSharedIndexInformer(lw, o, resync, indexers)
		if _, isNode := o.(*corev1.Node); isNode {
			nodes.Store(&informer)
			_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: n.forget}) // it fails after a stop alone
		}
		return informer
	}
}

// bounded lists and watches the objects of one kind, without those that are too many.
type bounded struct {
	need *Need
	from toolscache.ListerWatcherWithContext

	mu   sync.Mutex
	held *holding // since the last full list
}

// page is how many objects are listed at a time, before those that are too many are left out. One
// object may have 1.5 MiB, of which the cache keeps little.
const page = 50

// list lists one page, and keeps what is not too much. The API server would answer a request for any version in
// one piece, which may not fit into memory. The reflector asks for the next page.
func (b *bounded) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.ResourceVersion, o.ResourceVersionMatch, o.Limit = "", "", page
	held := b.holding(o.Continue == "")
	list, err := b.from.ListWithContext(ctx, o)
	if o.Continue != "" && apierrors.IsResourceExpired(err) {
		return nil, fmt.Errorf("read next page: %v", err) //nolint:errorlint // the reflector would go on with one page
	}
	if err != nil {
		return nil, err
	}
	var kept []runtime.Object
	err = meta.EachListItemWithAlloc(list, func(o runtime.Object) error {
		if held.pass(watch.Event{Type: watch.Added, Object: o}) {
			kept = append(kept, o)
		}
		return nil
	})
	if err == nil {
		err = meta.SetList(list, kept)
	}
	if err != nil {
		return nil, fmt.Errorf("read page of %T: %w", list, err)
	}
	return list, nil
}

func (b *bounded) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	from, err := b.from.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	held := b.holding(o.SendInitialEvents != nil && *o.SendInitialEvents)
	return watch.Filter(from, func(e watch.Event) (watch.Event, bool) { return e, held.pass(e) }), nil
}

// holding is what is held; nothing when all objects are about to be told again.
func (b *bounded) holding(again bool) *holding {
	b.mu.Lock()
	defer b.mu.Unlock()
	if again || b.held == nil {
		b.held = &holding{need: b.need, writers: map[client.ObjectKey]string{}, counts: map[string]int{}, told: map[string]bool{}}
	}
	return b.held
}

// holding is the objects that an informer holds.
type holding struct {
	need *Need

	mu      sync.Mutex
	writers map[client.ObjectKey]string // of each object
	counts  map[string]int              // objects by writer
	told    map[string]bool             // writers whose objects are left out
}

// pass reports whether an informer gets an event, and counts its object.
func (h *holding) pass(e watch.Event) bool {
	o, ok := e.Object.(client.Object)
	if !ok || e.Type == watch.Bookmark || e.Type == watch.Error {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	before, held := h.writers[key]
	if held {
		h.drop(key, before)
	}
	if e.Type == watch.Deleted {
		return true
	}
	writer := h.writerOf(o)
	if !held && h.counts[writer] >= h.need.most {
		h.tell(o, writer)
		return false
	}
	h.writers[key] = writer
	h.counts[writer]++
	return true
}

// disbelieved stands for the writers of objects that no reader believes.
const disbelieved = "any, without the owner"

// writerOf returns among whose objects an object counts. Until the Nodes are known, that is the one whom it names.
func (h *holding) writerOf(o client.Object) string {
	named, nodes := h.need.writer(o), h.need.nodes.Load()
	if nodes == nil || !(*nodes).HasSynced() {
		return named
	}
	found, _, _ := (*nodes).GetStore().GetByKey(named) // only an unknown index returns an error
	if node, ok := found.(*corev1.Node); ok && Believed(node, named, o.GetOwnerReferences()) {
		return named
	}
	return disbelieved
}

func (h *holding) drop(key client.ObjectKey, writer string) {
	delete(h.writers, key)
	if h.counts[writer]--; h.counts[writer] == 0 {
		delete(h.counts, writer)
	}
}

// tell logs that objects are left out, once for each writer whose objects are held.
func (h *holding) tell(o client.Object, writer string) {
	if !h.told[writer] {
		h.told[writer] = true
		log.Log.Info("Objects are left out: one node has too many; remedy: delete those that its agent did not make",
			"kind", fmt.Sprintf("%T", o), "node", writer, "most", h.need.most)
	}
}
