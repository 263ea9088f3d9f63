package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// budgetReport is all that was measured of budgets.
type budgetReport struct {
	size    budgetScale
	machine measure.Machine
	took    time.Duration

	written, refused, dry measure.Sample // answers of the guard for one budget
	independent, atOnce   measure.Sample // answers of the guard for budgets that share no pod
	bare                  measure.Sample // writes of a book of the same size
	waiting, decisions    int            // lines of that book
	evictions             []measure.Sample
}

// Kinds of evictions, in the order of guarding.peers.
const (
	withBudget = iota
	withPDB
	withNeither
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
		within("admission of a request that passes", r.written, r.whyWritten()),
		within("admission of a request that is refused", r.refused, "it waits for one read of the API server, of the pod. "+whyShared),
		within("admission of a dry run", r.dry, "it waits for one read of the API server, of the pod. "+whyShared),
		within(fmt.Sprintf("admission, %d budgets that share no pod", r.size.budgets), r.independent, r.whyWritten()),
	}
}

const whyShared = "API server, etcd, controller and this program share the cores of one machine with whatever else runs there."

func (r *budgetReport) whyWritten() string {
	return fmt.Sprintf("it waits for a read of the pod and a write of the book. In the same run, a bare write of such a book took %s ms at the 99th percentile. %s",
		measure.Millis(r.bare.P99()), whyShared)
}

// markdown renders the report.
func (r *budgetReport) markdown() string {
	var w strings.Builder
	fmt.Fprintf(&w, `# Benchmarks of budgets

Written by `+"`make bench-budgets`"+`: etcd, kube-apiserver and limpet-controller as processes. The benchmark itself plays ReplicaSet controller and kubelets, on the same machine. Milliseconds are median / 99th percentile.

* %s
* %s, %.0f s in all%s

## Numbers to reach

`, r.machine, r.machine.Day, r.took.Seconds(), measure.Precedence())
	w.WriteString(measure.Targets(r.targets()))
	fmt.Fprintf(&w, `
## Admission

Time from the question of the API server to the answer of the guard, for evictions. One budget covers %d pods, of which %d may be unavailable. An evicted pod is Ready again after %.1f s, so that the budget is asked for more than it can permit. An answer that permits an eviction waits for a write of the book; the others do not.

| what | ms | × a bare write | answers |
|---|---|---|---|
| passes, one budget | %s | %s | %d |
| refused, one budget | %s | %s | %d |
| dry run, one budget | %s | %s | %d |
| %d budgets that share no pod, one after the other | %s | %s | %d |
| %d budgets that share no pod, all at the same moment | %s | %s | %d |
| bare write of a book with %d entries, %d waiting requests and %d decisions | %s | 1.00 | %d |

## A whole eviction

As the client sees it, in turns at %d/s. All pass.

| pod with | ms | × without | evictions |
|---|---|---|---|
| a PodUnavailableBudget | %s | %.2f | %d |
| a PodDisruptionBudget | %s | %.2f | %d |
| neither | %s | 1.00 | %d |

At the median an eviction with a PodUnavailableBudget takes %.2f times as long as one with a PodDisruptionBudget.
`,
		r.size.pods, r.size.units, r.size.back.Seconds(),
		r.written, r.times(r.written), len(r.written), r.refused, r.times(r.refused), len(r.refused), r.dry, r.times(r.dry), len(r.dry),
		r.size.budgets, r.independent, r.times(r.independent), len(r.independent),
		r.size.budgets, r.atOnce, r.times(r.atOnce), len(r.atOnce),
		r.size.units, r.waiting, r.decisions, r.bare, len(r.bare), r.size.rate,
		r.evictions[withBudget], measure.Ratio(r.evictions[withBudget], r.evictions[withNeither]), len(r.evictions[withBudget]),
		r.evictions[withPDB], measure.Ratio(r.evictions[withPDB], r.evictions[withNeither]), len(r.evictions[withPDB]),
		r.evictions[withNeither], len(r.evictions[withNeither]), measure.Ratio(r.evictions[withBudget], r.evictions[withPDB]))
	return measure.Fold(w.String())
}

// times is how many bare writes a sample takes at the median.
func (r *budgetReport) times(s measure.Sample) string {
	return fmt.Sprintf("%.2f", measure.Ratio(s, r.bare))
}
