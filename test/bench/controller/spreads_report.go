package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// spreadReport is all that was measured of spreads.
type spreadReport struct {
	size spreadScale
	seen

	filling            measure.Sample // answers while pods are created as fast as possible
	fillRate           float64
	filled, replaced   map[string]int // pods of each subset
	limited, unlimited measure.Sample // answers at the rate, with an entry and without
	refused            measure.Sample

	withSpread, without measure.Sample // whole creations

	stormed   measure.Sample
	stormRate float64
	again     int // creations that were refused and tried again
	failed    int // the same before the storm
	causes    map[string]int
	most      map[string]int
	unplaced  int // pods of the storm without a subset
}

const mostPlacing = 10 * time.Millisecond

// overfill is how many pods too many a subset had, at the most.
func (r *spreadReport) overfill() int {
	limit, large := r.size.limit(r.size.wanted), r.size.limit(r.size.pods)
	return max(0, r.most["a"]-limit, r.most["b"]-limit, r.filled["a"]-large, r.filled["b"]-large, r.replaced["a"]-large, r.replaced["b"]-large)
}

func (r *spreadReport) targets() []measure.Target {
	within := func(what string, s measure.Sample, why string) measure.Target {
		return measure.Target{
			What: fmt.Sprintf("%s, p99 at %d/s", what, r.size.rate), Limit: fmt.Sprintf("≤ %s ms", measure.Millis(mostPlacing)),
			Got: measure.Millis(s.P99()) + " ms", Met: s.P99() <= mostPlacing, Why: why,
		}
	}
	count := func(what string, got, limit int, why string) measure.Target {
		return measure.Target{What: what, Limit: fmt.Sprint(limit), Got: fmt.Sprint(got), Met: got <= limit, Why: why}
	}
	return []measure.Target{
		within("admission, subset with a maximum", r.limited, "it waits for one write of the book. "+whyShared),
		within("admission, subset without a maximum", r.unlimited, "nothing is read past the cache and nothing is written. "+whyShared),
		count(fmt.Sprintf("pods too many in a subset, of %d", r.size.pods+r.size.creations()+r.size.storm), r.overfill(), 0, "see the design of spreads"),
		count("pods without a subset", r.unplaced+r.filled[""]+r.replaced[""], 0, "see the design of spreads"),
		count("creations that were refused", r.again+r.failed, 0, r.why()+whyShared),
	}
}

// markdown renders the report.
func (r *spreadReport) markdown() string {
	var w strings.Builder
	fmt.Fprintf(&w, `# Benchmarks of spreads

Written by `+"`make bench-spread`"+`: etcd, kube-apiserver and limpet-controller as processes. The benchmark itself plays ReplicaSet controller, on the same machine. Milliseconds are median / 99th percentile.

* %s
* %s, %.0f s in all

## Numbers to reach

`, r.machine, r.machine.Day, r.took.Seconds())
	w.WriteString(measure.Targets(r.targets()))
	limit := r.size.limit(r.size.pods)
	fmt.Fprintf(&w, `
## Admission

Time from the question of the API server to the answer of the webhook. One spread covers %d pods: two subsets of %d, and a last one without a maximum. A pod is deleted %d ms before its successor is created, as a ReplicaSet controller notices.

| what | ms | answers |
|---|---|---|
| a subset with a maximum, which needs an entry in the book | %s | %d |
| the last subset | %s | %d |
| %d creations at a time until all pods are there, %.0f a second | %s | %d |

Afterwards the subsets had %d, %d and %d pods; at the end of the first step %d, %d and %d.

## A whole creation

As the client sees it, in turns at %d/s.

| pod | ms | × without | creations |
|---|---|---|---|
| of the last subset | %s | %.2f | %d |
| in a namespace without a spread | %s | 1.00 | %d |

## Two replicas

%d clients create %d pods of one Deployment of %d through two replicas and delete as many, %.0f a second. Two subsets take %d pods each. A watch counts the pods in the order of the API server.

| what | measured |
|---|---|
| most pods in the subsets at a time | %d, %d, %d |
| pods too many | %d |
| pods without a subset | %d |
| creations that were refused and tried again | %d |
| answers of the webhook | %s ms |
`,
		r.size.pods, limit, noticed.Milliseconds(),
		r.limited, len(r.limited), r.unlimited, len(r.unlimited), hands, r.fillRate, r.filling, len(r.filling),
		r.replaced["a"], r.replaced["b"], r.replaced["c"], r.filled["a"], r.filled["b"], r.filled["c"],
		r.size.rate, r.withSpread, measure.Ratio(r.withSpread, r.without), len(r.withSpread), r.without, len(r.without),
		r.size.clients, r.size.storm, r.size.wanted, r.stormRate, r.size.limit(r.size.wanted),
		r.most["a"], r.most["b"], r.most["c"], max(0, r.most["a"]-r.size.limit(r.size.wanted), r.most["b"]-r.size.limit(r.size.wanted)),
		r.unplaced, r.again, r.stormed)
	return measure.Fold(w.String())
}

// why tells the causes of the refusals of the storm.
func (r *spreadReport) why() string {
	var all []string
	for _, cause := range slices.Sorted(maps.Keys(r.causes)) {
		all = append(all, fmt.Sprintf("%s: %d times", cause, r.causes[cause]))
	}
	return strings.Join(all, "; ") + ". "
}
