package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// report is all that was measured.
type report struct {
	size scale
	seen

	filled             int
	fill               time.Duration
	recorded           measure.Sample // Ready → recorded
	burst, burstOfSets measure.Sample // the same
	webhook            measure.Sample
	creates            []measure.Sample // by kind
	least              []measure.Sample // by kind, without Limpet's webhook
	nominated          measure.Sample   // created → may be scheduled
	rebuilt            measure.Sample   // Ready → recorded
	kept, lost         int
	start              time.Duration
	idle, full         int64 // memory
	highest            int64 // of the controller that was restarted
	recordRequests     measure.Tally
	burstRequests      measure.Tally
	startRequests      measure.Tally
	createRequests     measure.Tally
	rebuildRequests    measure.Tally
}

// added is what the first of two kinds of pod takes longer than the second.
func added(creates []measure.Sample) time.Duration {
	return creates[0].Median() - creates[1].Median()
}

// What is in the way of those that are missed.
const (
	whyTail = "API server, etcd, controller and this program share the cores of one machine with whatever else runs there, and wait for each other " +
		"(for up to 100 ms at a real-time priority). The median is what the work takes."
	whyBurst = "the API server writes the status of each pod and then the record, on the same cores; a record costs it 2 ms and 0.07 ms for each pod " +
		"in it. All changes of a StatefulSet that came meanwhile go into one record."
	whyPlain = "the API server evaluates the match conditions of both webhooks, for which it turns the pod into another form. Nothing is sent."
)

func (r *report) whyPinned() string {
	return fmt.Sprintf("on this machine a webhook that knows its answer beforehand adds %s ms: the API server sends the pod, applies the patch and decodes "+
		"the pod again. Limpet's answer is there after %s ms at the median.",
		measure.Millis(added(r.least)), measure.Millis(r.webhook.Median()))
}

// targets compares what was measured with the numbers to reach.
func (r *report) targets() []measure.Target {
	within := func(what string, s measure.Sample, p50, p99 time.Duration) measure.Target {
		t := measure.Target{What: what, Got: s.String() + " ms", Met: s.Median() <= p50 && s.P99() <= p99}
		t.Why = whyTail
		t.Limit = fmt.Sprintf("≤ %s / %s ms", measure.Millis(p50), measure.Millis(p99))
		return t
	}
	burst := measure.Target{What: fmt.Sprintf("Ready → recorded, %d at once, p99", len(r.burstOfSets)), Limit: "≤ 250 ms", Got: measure.Millis(r.burstOfSets.P99()) + " ms"}
	burst.Met, burst.Why = r.burstOfSets.P99() <= 250*time.Millisecond, whyBurst
	webhook := measure.Target{What: fmt.Sprintf("pod webhook, p99 at %d creates/s", r.size.rate), Limit: "≤ 10 ms", Got: measure.Millis(r.webhook.P99()) + " ms"}
	webhook.Met, webhook.Why = r.webhook.P99() <= 10*time.Millisecond, whyTail
	byPin, byNothing := added(r.creates[pinned:]), added(r.creates[plain:])
	highest := max(r.full, r.highest)
	conflicts := r.burstRequests.Conflicts() + r.recordRequests.Conflicts() + r.rebuildRequests.Conflicts()
	lists := r.createRequests.Lists() + r.rebuildRequests.Lists() + r.recordRequests.Lists()
	return []measure.Target{
		within("Ready → recorded, p50 / p99", r.recorded, 10*time.Millisecond, 25*time.Millisecond),
		burst,
		webhook,
		{What: "added to the creation of a pinned pod, median", Limit: "≤ 1.5 ms", Got: measure.Millis(byPin) + " ms", Met: byPin <= 1500*time.Microsecond, Why: r.whyPinned()},
		{What: "added to the creation of a pod that asks for nothing, median", Limit: "nothing (below 0.2 ms)", Got: measure.Millis(byNothing) + " ms", Met: byNothing <= 200*time.Microsecond, Why: whyPlain},
		{
			What: fmt.Sprintf("controller's memory with %d recorded pods", r.size.pods()), Limit: "≤ 250 MB", Got: measure.Megabytes(highest), Met: highest <= 250e6,
			Why: "the heap may grow to GOMEMLIMIT, which is 400 MiB as in the manifests: the highest depends on how much garbage is made at a time. " +
				"The scene memory of make bench-scale has 15 times as many pods within the same limit.",
		},
		{What: "lists of more than one object while it works", Limit: "0", Got: fmt.Sprint(lists), Met: lists == 0},
		{What: "writes refused because of a conflict", Limit: "0", Got: fmt.Sprint(conflicts), Met: conflicts == 0},
		{What: fmt.Sprintf("kept, of %d rebuilds", r.size.rebuilds()), Limit: "all", Got: fmt.Sprint(r.kept), Met: r.kept == r.size.rebuilds() && r.lost == 0},
	}
}

// markdown renders the report.
func (r *report) markdown() string {
	var w strings.Builder
	fmt.Fprintf(&w, `# Benchmarks of the controller

Written by `+"`make bench-controller`"+`: etcd, kube-apiserver and limpet-controller as processes, %d nodes and %d pods of %d StatefulSets as objects. The
benchmark itself plays StatefulSet controller, scheduler and kubelets, on the same machine. The pods ask to keep their addresses, and their
StatefulSets prefer the node they were on. Milliseconds are median / 99th percentile.

* %s
* %s, %.0f s in all

## Numbers to reach

`, r.size.nodes, r.size.pods(), r.size.sets, r.machine, r.machine.Day, r.took.Seconds())
	w.WriteString(measure.Targets(r.targets()))
	fmt.Fprintf(&w, `
## Times

| what | ms | |
|---|---|---|
| Ready → recorded, 20 a second | %s | %d pods |
| Ready → recorded, all at once | %s | %d pods of %d StatefulSets |
| Ready → recorded, all at once | %s | %d pods of %d StatefulSets |
| rebuilt: created → nominated and behind no gate | %s | %d pods, 20 a second |
| rebuilt: Ready → recorded | %s | the same |
| webhook, as its caller sees it, at %d creates/s | %s | %d pods, all pinned |
| controller: start → ready | %s | with all objects there |

%d pods that became Ready as fast as this machine can write it were recorded after %.0f s.

## What a creation costs

The same pods in turns, at %d/s; the namespace kube-system is left out by the webhooks.

| pod | with Limpet | without | added at the median |
|---|---|---|---|
| of a StatefulSet, pinned | %s | %s | %s |
| without an owner, asks for nothing | %s | %s | %s |
| of a StatefulSet, for a webhook in Limpet's place that knows its answer beforehand | %s | %s | %s |
`,
		r.recorded, len(r.recorded), r.burstOfSets, len(r.burstOfSets), r.size.wholeSets(),
		r.burst, len(r.burst), min(len(r.burst), r.size.sets-r.size.wholeSets()), r.nominated, len(r.nominated), r.rebuilt,
		r.size.rate, r.webhook, len(r.webhook), measure.Millis(r.start), r.filled, r.fill.Seconds(), r.size.rate,
		r.creates[pinned], r.creates[pinnedWithout], measure.Millis(added(r.creates[pinned:])),
		r.creates[plain], r.creates[plainWithout], measure.Millis(added(r.creates[plain:])),
		r.least[pinned], r.least[pinnedWithout], measure.Millis(added(r.least)))
	w.WriteString(r.memory())
	r.requests(&w)
	return measure.Fold(w.String())
}

// memory is the table of the controller's resident memory.
func (r *report) memory() string {
	return fmt.Sprintf(`
## Memory of the controller

| when | resident |
|---|---|
| nothing is recorded | %s |
| all %d pods are recorded | %s |
| restarted with all of them there, the highest until the end | %s |
`, measure.Megabytes(r.idle), r.size.pods(), measure.Megabytes(r.full), measure.Megabytes(r.highest))
}

// requests tells what the controller asked the API server for, by the server's audit log.
func (r *report) requests(w *strings.Builder) {
	fmt.Fprintf(w, `
## Requests of the controller

By the API server's audit log; its lease is left out. A rebuild costs %.1f writes: the nomination, the gate, the record, and the event of a pod that returns alone.

| request | of what | at a start | %d records | %d records of %d sets at once | %d creates | %d rebuilds |
|---|---|---|---|---|---|---|
`, float64(r.rebuildRequests.Writes())/float64(r.size.rebuilds()), len(r.recorded), len(r.burstOfSets), r.size.wholeSets(),
		r.size.creates(), r.size.rebuilds())
	columns := []measure.Tally{r.startRequests, r.recordRequests, r.burstRequests, r.createRequests, r.rebuildRequests}
	all := measure.Tally{}
	for _, t := range columns {
		for q := range t {
			all[q]++
		}
	}
	for _, q := range all.Sorted() {
		if q.House() {
			continue
		}
		fmt.Fprintf(w, "| %s %s | %s |", q.Verb, q.Resource, q.Scope)
		for _, t := range columns {
			fmt.Fprintf(w, " %d |", t[q])
		}
		w.WriteString("\n")
	}
}
