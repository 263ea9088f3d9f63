package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// budgetReport is all that was measured of budgets.
type budgetReport struct {
	size budgetScale
	seen

	written, refused, dry measure.Sample // answers of the guard for one budget
	independent, atOnce   measure.Sample // answers of the guard for budgets that share no pod
	evictions             []measure.Sample
}

// Kinds of evictions, in the order of guarding.peers.
const (
	withBudget = iota
	withPDB
	withNeither
	deleted // and not evicted
	kindsOfPeers
)

const mostAdmission = 15 * time.Millisecond

func (r *budgetReport) targets() []measure.Target {
	within := func(what string, s measure.Sample, why string) measure.Target {
		return measure.Target{
			What: fmt.Sprintf("%s, p99 at %d/s", what, r.size.rate), Limit: fmt.Sprintf("≤ %s ms", measure.Millis(mostAdmission)),
			Got: measure.Millis(s.P99()) + " ms", Met: s.P99() <= mostAdmission, Why: why,
		}
	}
	return []measure.Target{
		within("admission of a request that passes", r.written, whyWritten),
		within("admission of a request that is refused", r.refused, whyRead),
		within("admission of a dry run", r.dry, whyRead),
		within(fmt.Sprintf("admission, %d budgets that share no pod", r.size.budgets), r.independent, whyWritten),
	}
}

// What an admission waits for.
const (
	whyShared  = "API server, etcd, controller and this program share the cores of one machine with whatever else runs there."
	whyRead    = "it waits for one read of the API server, of the pod. " + whyShared
	whyWritten = "it waits for a read of the pod and a write of the book. " + whyShared
)

// markdown renders the report.
func (r *budgetReport) markdown() string {
	var w strings.Builder
	fmt.Fprintf(&w, `# Benchmarks of budgets

Written by `+"`make bench-budgets`"+`: etcd, kube-apiserver and limpet-controller as processes. The benchmark itself plays ReplicaSet controller and kubelets, on the same machine. Milliseconds are median / 99th percentile.

* %s
* %s, %.0f s in all

## Numbers to reach

`, r.machine, r.machine.Day, r.took.Seconds())
	w.WriteString(measure.Targets(r.targets()))
	fmt.Fprintf(&w, `
## Admission

Time from the question of the API server to the answer of the guard, for evictions. One budget covers %d pods, of which %d may be unavailable. An evicted pod is Ready again after %.1f s, so that the budget is asked for more than it can permit. An answer that permits an eviction waits for a write of the book; the others do not.

| what | ms | answers |
|---|---|---|
| passes, one budget | %s | %d |
| refused, one budget | %s | %d |
| dry run, one budget | %s | %d |
| %d budgets that share no pod, one after the other | %s | %d |
| %d budgets that share no pod, all at the same moment | %s | %d |

## A whole eviction

As the client sees it, in turns at %d/s. All pass.

| pod with | ms | × without | evictions |
|---|---|---|---|
| a PodUnavailableBudget | %s | %.2f | %d |
| a PodDisruptionBudget | %s | %.2f | %d |
| neither | %s | 1.00 | %d |
| neither, deleted in place of evicted | %s | %.2f | %d |

For an eviction without any budget, Limpet's guard is not asked. The API server reads the pod, lists PodDisruptionBudgets, writes a condition into the pod, and deletes the pod. The list is most of it: it comes from the API server's watch cache, which waits until etcd confirms that no change is missing. It asks etcd each 100 ms for that, so that a list of a kind that seldom changes takes 50 ms on average.

At the median an eviction with a PodUnavailableBudget takes %.2f times as long as one with a PodDisruptionBudget.
`,
		r.size.pods, r.size.units, r.size.back.Seconds(),
		r.written, len(r.written), r.refused, len(r.refused), r.dry, len(r.dry),
		r.size.budgets, r.independent, len(r.independent),
		r.size.budgets, r.atOnce, len(r.atOnce), r.size.rate,
		r.evictions[withBudget], measure.Ratio(r.evictions[withBudget], r.evictions[withNeither]), len(r.evictions[withBudget]),
		r.evictions[withPDB], measure.Ratio(r.evictions[withPDB], r.evictions[withNeither]), len(r.evictions[withPDB]),
		r.evictions[withNeither], len(r.evictions[withNeither]),
		r.evictions[deleted], measure.Ratio(r.evictions[deleted], r.evictions[withNeither]), len(r.evictions[deleted]),
		measure.Ratio(r.evictions[withBudget], r.evictions[withPDB]))
	return measure.Fold(w.String())
}
