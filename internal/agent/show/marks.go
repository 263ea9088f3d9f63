package show

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// marks knows which reservations of the node their users give up. Only IPReservations of the node count, which the
// agent alone creates, so there are never more marks than reservations.
type marks struct {
	loop *Loop

	mu sync.Mutex
	of map[string]*marked // by the namespace that is watched; empty for all namespaces
}

// marked is what one watch shows.
type marked struct {
	stop context.CancelFunc
	of   map[string]plan.Mark // by the key of the object
}

// follow watches the marks in the namespaces in which the node has reservations. A node without reservations asks the
// API server nothing. The server looks at each event for each watch of its namespace, and for each watch of all: so a
// node watches all namespaces only if these are too many.
func (m *marks) follow(ctx context.Context, namespaces []string) {
	if len(namespaces) > maxNamespaces {
		namespaces = []string{metav1.NamespaceAll}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for ns, open := range m.of {
		if !slices.Contains(namespaces, ns) {
			open.stop()
			delete(m.of, ns)
		}
	}
	for _, ns := range namespaces {
		if m.of[ns] == nil {
			ctx, stop := context.WithCancel(ctx)
			m.of[ns] = &marked{stop: stop}
			go m.loop.keepOpen(ctx, watcher{
				what: "ipreservations that users give up",
				open: func(ctx context.Context, atMost time.Duration) (watch.Interface, error) {
					return m.loop.Client.watchMarked(ctx, m.loop.Node, ns, atMost)
				},
				opened: func() { m.forget(ctx, ns) }, // the first events show all marks that are there
				see: func(e watch.EventType, o runtime.Object) {
					if o, ok := o.(*v1alpha1.IPReservation); ok {
						m.see(ctx, ns, e, o)
					}
				},
			})
		}
	}
}

// forget drops the marks of an earlier watch of a namespace: some may have been removed since.
func (m *marks) forget(ctx context.Context, ns string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() == nil { // the watch is still wanted
		m.of[ns].of = map[string]plan.Mark{}
	}
}

// see notes one object that the watch of a namespace shows.
func (m *marks) see(ctx context.Context, ns string, event watch.EventType, o *v1alpha1.IPReservation) {
	mark, is := plan.MarkOf(m.loop.Node, o)
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil { // the watch is not wanted any more
		return
	}
	if key := plan.Key(o); is && event != watch.Deleted {
		m.of[ns].of[key] = mark
	} else {
		delete(m.of[ns].of, key)
	}
}

// Marks returns the reservations of the node that their users give up.
func (l *Loop) Marks() []plan.Mark {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	var all []plan.Mark
	for _, m := range l.marks.of {
		all = slices.AppendSeq(all, maps.Values(m.of))
	}
	return all
}
