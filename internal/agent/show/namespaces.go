package show

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

const (
	// maxNamespaces bounds the namespaces that are watched at a time.
	maxNamespaces = 16
	// firstEvent is how long the first event of a watch takes at the most. A namespace without one is gone.
	firstEvent = 5 * time.Second
	// probe is about how often an object is created in a lost namespace that is not watched.
	probe = time.Minute
	// evidence is how long the last news of a namespace counts. A watch is opened again within this time.
	evidence = 15 * time.Minute
)

// namespaces knows which namespaces the objects of the node have lost. Deletion of a namespace deletes them,
// and the node may still keep the addresses: a namespace that is made again must show them at once.
type namespaces struct {
	loop    *Loop
	changed chan struct{} // receives when a namespace has come or gone, and when the Node is known

	mu sync.Mutex
	of map[string]*namespace
}

// namespace is what is known of one namespace.
type namespace struct {
	stop    context.CancelFunc // ends its watch; nil without one
	exists  bool
	created time.Time // while it exists
	gone    time.Time // since when it is terminating or gone; zero while that is not known
	heard   time.Time // when the API server last told anything of it
	probe   time.Time // when the next object is created without knowing better
}

// update changes what is known of a namespace, and wakes the loop if it came or went.
func (n *namespaces) update(name string, change func(*namespace, time.Time)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ns := n.of[name]
	if ns == nil {
		ns = &namespace{}
		n.of[name] = ns
	}
	before := *ns
	now := n.loop.Clock.Now()
	change(ns, now)
	ns.heard = now
	if before.exists != ns.exists || before.gone.IsZero() != ns.gone.IsZero() || !before.created.Equal(ns.created) {
		Wake(n.changed)
	}
}

// lose notes that a namespace is terminating or gone.
func (n *namespaces) lose(name string) {
	wait := probe/2 + time.Duration(n.loop.Random()*float64(probe))
	n.update(name, func(ns *namespace, now time.Time) {
		ns.exists, ns.created, ns.probe = false, time.Time{}, now.Add(wait)
		if ns.gone.IsZero() {
			ns.gone = now
		}
	})
}

func (n *namespaces) find(name string, created time.Time) {
	n.update(name, func(ns *namespace, _ time.Time) { ns.exists, ns.created, ns.gone = true, created, time.Time{} })
}

// lost reports whether objects of a namespace need not be written now.
func (n *namespaces) lost(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	ns := n.of[name]
	return ns != nil && !ns.gone.IsZero() && (ns.stop != nil || n.loop.Clock.Now().Before(ns.probe))
}

// outlived reports whether an object that the server had is gone with its namespace.
func (n *namespaces) outlived(o plan.Object) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	ns := n.of[o.GetNamespace()]
	return ns != nil && (!ns.gone.IsZero() || ns.exists && o.GetCreationTimestamp().Time.Before(ns.created))
}

// follow watches the lost namespaces of the wanted objects, and others that it is given, the first of them
// when they are too many. It forgets all other namespaces.
func (n *namespaces) follow(ctx context.Context, wanted map[string]bool, others []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	keep := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(n.of)) {
		keep[name] = wanted[name] && !n.of[name].gone.IsZero()
	}
	for _, name := range others {
		keep[name] = true
	}
	for name, ns := range n.of {
		if !keep[name] {
			ns.end()
			delete(n.of, name)
		}
	}
	n.start(ctx, slices.Concat(slices.Sorted(maps.Keys(n.of)), others))
}

// start watches namespaces that are not watched yet, as far as the bound allows.
func (n *namespaces) start(ctx context.Context, names []string) {
	watched := 0
	for _, ns := range n.of {
		if ns.stop != nil {
			watched++
		}
	}
	for _, name := range names {
		ns := n.of[name]
		if ns != nil && ns.stop != nil || watched >= maxNamespaces {
			continue
		}
		if ns == nil {
			ns = &namespace{}
			n.of[name] = ns
		}
		watched++
		var watching context.Context
		watching, ns.stop = context.WithCancel(ctx)
		go n.watch(watching, name)
	}
}

func (ns *namespace) end() {
	if ns.stop != nil {
		ns.stop()
	}
}

func (n *namespaces) stopAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ns := range n.of {
		ns.end()
	}
}

// watch keeps what is known of a namespace current until ctx ends.
func (n *namespaces) watch(ctx context.Context, name string) {
	n.loop.keepWatching(ctx, "namespaces", name, func() { n.lose(name) }, func(e watch.EventType, o *metav1.PartialObjectMetadata) {
		switch {
		case ctx.Err() != nil: // the namespace is no longer followed
		case e == watch.Deleted || o.DeletionTimestamp != nil:
			n.lose(name)
		default:
			n.find(name, o.CreationTimestamp.Time)
		}
	})
}

// Gone returns the namespaces of offered objects that are terminating or gone, and since when. A namespace
// of which nothing was heard lately is not among them.
func (l *Loop) Gone() map[string]time.Time {
	n := &l.namespaces
	n.mu.Lock()
	defer n.mu.Unlock()
	gone, now := map[string]time.Time{}, l.Clock.Now()
	for name, ns := range n.of {
		if !ns.gone.IsZero() && now.Sub(ns.heard) < evidence {
			gone[name] = ns.gone
		}
	}
	return gone
}
