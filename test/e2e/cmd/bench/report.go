package main

import (
	"fmt"
	"slices"
	"time"
)

// report is all that was measured.
type report struct {
	with, without *turn
	pods          int
	agent         int64
}

// quantile returns the time within which so many percent were.
func (t *turn) quantile(percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(t.took))
	return sorted[(len(sorted)-1)*percent/100]
}

// markdown renders the report.
func (r report) markdown(took time.Duration) string {
	row := func(t *turn) string {
		return fmt.Sprintf("| %s | %.2f | %.2f | %.2f | %d | %d |\n", t.side.title, t.quantile(10).Seconds(), t.quantile(50).Seconds(),
			t.quantile(90).Seconds(), len(t.took), t.same)
	}
	more := 100 * (r.with.quantile(50).Seconds()/r.without.quantile(50).Seconds() - 1)
	verdict := func(met bool) string {
		if met {
			return "met"
		}
		return "**missed**"
	}
	return fmt.Sprintf(`# Benchmark of a rebuild

Written by `+"`make bench-rebuild`"+` on the local three-node cluster, in %.0f s. Pods of a StatefulSet are deleted one at a time, with a grace period of
5 s, and timed from the deletion until the successor is Ready. In turns, they are kept by Limpet (address and node), or are on upstream host-local with
the same interface plugin, in a namespace that Limpet leaves out; Limpet's agents and controller run all the time.

| what | target | measured | |
|---|---|---|---|
| rebuild: delete → Ready, median | ≤ 5 %% longer than without | %+.1f %% | %s |
| agent's highest memory with %d pods on its node (target for 250) | ≤ 40 MB | %.1f MB | %s |

| seconds | p10 | median | p90 | rebuilds | same node and addresses |
|---|---|---|---|---|---|
%s%s`, took.Seconds(), more, verdict(more <= 5), r.pods, float64(r.agent)/1e6, verdict(r.agent <= 40e6), row(r.with), row(r.without))
}
