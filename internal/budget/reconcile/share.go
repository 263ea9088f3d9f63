package reconcile

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/books"
)

// Bounds of what the leader does and remembers for one namespace, and for all: a tenant may have
// ten thousand budgets of the same pods.
const (
	// reconcileEach is the time between two reconciles of the budgets of one namespace, of which
	// reconcilesAtOnce may come at once.
	reconcileEach    = 25 * time.Millisecond
	reconcilesAtOnce = 40
	// mostSights are the pods that are followed in one namespace, once for each of their budgets,
	// and mostSightsInAll those of all. One takes some 150 bytes.
	mostSights      = 50_000
	mostSightsInAll = 250_000
	// mostTriggered is how many budgets one event of a pod triggers. No pod of more budgets may go.
	mostTriggered = 2 * books.MostBudgets
)

// turn returns how long a reconcile of a budget has to wait, so that the budgets of one
// namespace leave time to those of others. A budget keeps its place while it waits.
func (m *memory) turn(budget client.ObjectKey, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.spaceOf(budget.Namespace)
	at, waits := s.turns[budget.Name]
	if !waits {
		at = now.Add(s.rate.ReserveN(now, 1).DelayFrom(now))
	}
	if wait := at.Sub(now); wait > 0 {
		s.turns[budget.Name] = at
		return wait
	}
	delete(s.turns, budget.Name)
	return 0
}

// follow returns the pods of a budget whose loss will be noticed: none, where the namespace or
// all of them have too many. The caller has the lock.
func (m *memory) follow(s *space, budget string, sights map[types.UID]sight) map[types.UID]sight {
	before := 0
	if k := s.budgets[budget]; k != nil {
		before = len(k.sights)
	}
	grown := len(sights) - before
	if grown > 0 && (s.sights+grown > mostSights || m.sights+grown > mostSightsInAll) {
		sights, grown = nil, -before
	}
	s.sights += grown
	m.sights += grown
	return sights
}
