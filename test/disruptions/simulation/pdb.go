package simulation

import (
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget"
)

// pdb is a PodDisruptionBudget of Kubernetes for the pods with one label.
type pdb struct {
	key, value string
	most       int32 // pods that may be away
	healthy    int32
	desired    int32
	allowed    int32
	disrupted  map[string]time.Time // by the names of pods
}

// forget is how long Kubernetes waits for a pod to go that may be evicted.
const forget = 2 * time.Minute

// disruptionController counts the healthy pods of the PodDisruptionBudget, as
// kube-controller-manager does.
func (c *cluster) disruptionController(p *process) {
	for {
		c.countHealthy()
		p.sleep(p.between(50*time.Millisecond, 500*time.Millisecond))
	}
}

func (c *cluster) countHealthy() {
	b := c.pdb
	maps.DeleteFunc(b.disrupted, func(name string, at time.Time) bool {
		now := c.pods[name]
		return now == nil || now.deleting || c.now.Sub(at) > forget
	})
	expected, seen := int32(0), map[string]bool{}
	b.healthy = 0
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		p := c.pods[name]
		if !b.selects(p) {
			continue
		}
		if top := topOf(c.workloads, p.workload); !seen[top] {
			seen[top] = true
			expected += int32(c.workloads[top].replicas)
		}
		if _, going := b.disrupted[name]; p.ready && !p.deleting && !going {
			b.healthy++
		}
	}
	b.desired = max(expected-b.most, 0)
	b.allowed = max(b.healthy-b.desired, 0)
}

func (b *pdb) selects(p *pod) bool { return b != nil && p.labels[b.key] == b.value }

// checkPDB is the check of the API server after its webhooks. It refuses an eviction, or enters
// the pod.
func (c *cluster) checkPDB(q call) (code int, message string) {
	p := c.pods[q.name]
	b := c.pdb
	if p == nil || p.deleting || !q.evicts() || !b.selects(p) || !p.ready && b.healthy >= b.desired && b.desired > 0 {
		return ok, ""
	}
	if b.allowed <= 0 {
		return refused, "Cannot evict pod as it would violate the pod's disruption budget."
	}
	if !q.dryRun {
		b.allowed--
		b.disrupted[q.name] = c.now
	}
	return ok, ""
}

// pdbsOf are the PodDisruptionBudgets of an eviction, as they are read past the cache.
func (r *replica) pdbsOf(q request, target *pod) []budget.PDB {
	b := r.pdb
	if q.vector != budget.Evict || !b.selects(target) || r.variant == NoPDB {
		return nil
	}
	disrupted := map[string]metav1.Time{}
	for name, at := range b.disrupted {
		disrupted[name] = metav1.NewTime(at)
	}
	return []budget.PDB{{
		Name: "pdb-" + strconv.Itoa(int(b.most)), Allowed: b.allowed, CurrentHealthy: b.healthy, DesiredHealthy: b.desired, Disrupted: disrupted, Healthy: r.healthyBy(b),
	}}
}

// healthyBy has the pods that a PodDisruptionBudget counts as healthy, by the cache.
func (r *replica) healthyBy(b *pdb) map[string]bool {
	healthy := map[string]bool{}
	for uid, p := range r.pods {
		healthy[uid] = b.selects(p) && p.ready && !p.deleting
	}
	return healthy
}
