package reconcile

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// pause is the shortest time between two reconciles of a budget, so that a burst of pods
// costs one write of the status each second.
const pause = time.Second

// pauseOf is the pause between two reconciles of a budget.
func pauseOf(divided *limpetv1alpha1.DistributedPodDisruptionBudget) time.Duration {
	if divided != nil && len(divided.Spec.Federation) > 0 {
		return exchangePause
	}
	return pause
}

// explanationMemory is how long an explained disruption is remembered. It is longer than any
// budget goes without a reconcile.
const explanationMemory = 5 * time.Minute

// memory is what the leader remembers of budgets between two reconciles.
type memory struct {
	mu         sync.Mutex
	namespaces map[string]*space
	sights     int // of all budgets
}

// space is what is remembered of one namespace.
type space struct {
	budgets map[string]*known // by name
	// explained are pods whose disruption no budget has to wonder about: they had an entry in
	// a book, or ended as they should. Budgets that share pods share the explanations.
	explained fair.Rests[types.UID]
	// counted are pods whose loss is in the metrics, which a second budget must not repeat.
	counted fair.Rests[types.UID]
	sights  int // of all budgets
	// turns are when the budgets that wait may be reconciled, by name.
	turns map[string]time.Time
	rate  *rate.Limiter
}

// known is what is remembered of one budget.
type known struct {
	uid    types.UID
	sights map[types.UID]sight
	ran    time.Time // the last reconcile
	write  cluster.Write
	told   *teller
	missed time.Time // the last loss that the guard should have been asked about
	noted  time.Time // the last event about losses
	woken  map[types.UID]time.Time
	offer  offer
	busy   time.Time // when a pod last went, or a request waited
}

// spaceOf returns the memory of a namespace. The caller has the lock.
func (m *memory) spaceOf(namespace string) *space {
	if m.namespaces == nil {
		m.namespaces = map[string]*space{}
	}
	s := m.namespaces[namespace]
	if s == nil {
		s = &space{budgets: map[string]*known{}, turns: map[string]time.Time{}, rate: rate.NewLimiter(rate.Every(reconcileEach), reconcilesAtOnce)}
		m.namespaces[namespace] = s
	}
	return s
}

// of returns the memory of a budget; a former budget of the name is forgotten. Reconciles of
// one budget run one after the other, and change it through put alone.
func (m *memory) of(budget client.ObjectKey, uid types.UID, now time.Time) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.spaceOf(budget.Namespace)
	if k := s.budgets[budget.Name]; k != nil && k.uid == uid {
		return *k
	}
	return known{uid: uid, told: &teller{since: now}}
}

func (m *memory) put(budget client.ObjectKey, k known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.spaceOf(budget.Namespace)
	k.sights = m.follow(s, budget.Name, k.sights)
	s.budgets[budget.Name] = &k
}

// forget drops a budget that is gone, and its namespace with the last one.
func (m *memory) forget(budget client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.spaceOf(budget.Namespace)
	m.follow(s, budget.Name, nil)
	delete(s.turns, budget.Name)
	if delete(s.budgets, budget.Name); len(s.budgets) == 0 {
		delete(m.namespaces, budget.Namespace)
	}
}

// counting returns budgets that counted a pod as available at their last reconcile.
func (m *memory) counting(namespace string, pod types.UID) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.namespaces[namespace]
	if s == nil {
		return nil
	}
	var names []string
	for name, k := range s.budgets {
		if _, ok := k.sights[pod]; ok && len(names) < mostTriggered {
			names = append(names, name)
		}
	}
	return names
}

// explain remembers that the disruption of pods has an explanation.
func (m *memory) explain(namespace string, now time.Time, pods ...types.UID) {
	if len(pods) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.namespaces[namespace]
	if s == nil {
		return // no budget is there
	}
	for _, pod := range pods {
		s.explained.Begin(pod, now, explanationMemory)
	}
}

// explanations returns a function that reports whether the disruption of a pod has one.
func (m *memory) explanations(namespace string, now time.Time) func(types.UID) bool {
	return func(pod types.UID) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.spaceOf(namespace).explained.Left(pod, now) > 0
	}
}

// count reports whether the loss of a pod is to be counted: once for all budgets of the pod.
func (m *memory) count(namespace string, pod types.UID, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spaceOf(namespace).counted.Take(pod, now, countedOnce, math.MaxInt)
}

// countedOnce is the time in which all budgets of a pod notice its loss. A pod that is lost
// again later counts again.
const countedOnce = 30 * time.Second
