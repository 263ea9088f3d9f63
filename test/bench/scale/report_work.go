package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// perAlone is how many writes the rebuild of a pod that returned alone caused.
func (w *work) perAlone() float64 { return float64(w.Alone.Writes) / float64(max(1, w.Alones)) }

// perRebuild is how many writes a rebuild caused.
func (w *work) perRebuild() float64 { return float64(w.Rebuild.Writes) / float64(max(1, w.Rebuilds)) }

func (w *work) targets() []measure.Target {
	if w == nil {
		return nil
	}
	failed := w.FailedRecorded.Worst
	return []measure.Target{
		{
			What: "writes of the controllers for a rebuild", Limit: "≤ 4", Got: fmt.Sprintf("%.1f", w.perRebuild()), Met: w.perRebuild() <= 4.05,
			Why: "the nomination, the gate and the record are two parts of a pod and another object, which the API server takes one by one.",
		},
		{
			What: "controllers that a restart of the API server ended", Limit: "0", Got: fmt.Sprint(w.Restarts), Met: w.Restarts == 0,
			Why: "a controller ends when it cannot renew its lease.",
		},
		{
			What: "leader killed during rebuilds: Ready → recorded, worst", Limit: "≤ 30 s", Got: seconds(failed), Met: failed.Seconds() <= 30,
			Why: "another replica leads when the lease of the killed one has expired.",
		},
	}
}

// tables are what the scene with two controllers found.
func (w *work) tables(to *strings.Builder, day string) {
	fmt.Fprintf(to, `
## Two controllers

Measured on %s. %d nodes, %d pods, %d of them recorded, and two controllers. The benchmark plays StatefulSet controller, scheduler and kubelets, at %d rebuilds a second, and creates the pods as the webhook makes them. There are no agents. etcd's file has %s.

| what | requests | writes |
|---|---|---|
| %.0f s at rest | %d | %d |
| %d rebuilds | %d | %d |
| %d rebuilds, each of another workload | %d | %d |
| %.0f s after a restart of the API server, with one rebuild | %d | %d |

| what | ms, median / 99th percentile | worst |
|---|---|---|
| rebuild: created → gate open | %s |
| rebuild: Ready → recorded | %s |
| the leader is killed: created → gate open | %s |
| the leader is killed: Ready → recorded | %s |
| API server ready again → a pod is rebuilt and recorded | %s | |

A controller has %s of resident memory, at most %s.

The requests of the controllers follow the rebuilds, not the number of nodes. After the death of a leader the other replica waits 10 s for the Lease, in a cluster of any size. Pods of a StatefulSet that return within seconds have one event together; a pod that returns alone has its own. Writes of the %d rebuilds: %s. Writes of the %d pods that return alone: %s.
`,
		day, w.Fleet.Nodes, w.Fleet.Pods, w.Fleet.Records, rebuildRate, measure.Megabytes(w.Etcd),
		w.Seconds, w.Rest.Requests, w.Rest.Writes, w.Rebuilds, w.Rebuild.Requests, w.Rebuild.Writes,
		w.Alones, w.Alone.Requests, w.Alone.Writes, w.AfterSeconds, w.After.Requests, w.After.Writes,
		w.CalmOpened.cells(), w.CalmRecorded.cells(), w.FailedOpened.cells(), w.FailedRecorded.cells(),
		measure.Millis(w.FirstAfter), measure.Megabytes(w.Resident), measure.Megabytes(w.Most), w.Rebuilds, writtenText(w.Written), w.Alones, writtenText(w.AloneWritten))
}

// writtenText lists writes by what they are.
func writtenText(written map[string]int) string {
	kinds := make([]string, 0, len(written))
	for _, kind := range slices.Sorted(maps.Keys(written)) {
		kinds = append(kinds, fmt.Sprintf("%d `%s`", written[kind], kind))
	}
	return strings.Join(kinds, ", ")
}
