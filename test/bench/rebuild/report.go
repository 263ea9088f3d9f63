package main

import (
	"fmt"
	"slices"
	"time"
)

// report holds all measurements.
type report struct {
	with, without *series
	pods          int
	agent         int64
}

// quantile returns the duration that the given percentage of rebuilds did not exceed.
func (s *series) quantile(percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(s.took))
	return sorted[(len(sorted)-1)*percent/100]
}

// markdown renders the report.
func (r report) markdown(took time.Duration) string {
	row := func(s *series) string {
		return fmt.Sprintf("| %s | %.2f | %.2f | %.2f | %d | %d |\n", s.variant.title, s.quantile(10).Seconds(), s.quantile(50).Seconds(),
			s.quantile(90).Seconds(), len(s.took), s.same)
	}
	more := 100 * (r.with.quantile(50).Seconds()/r.without.quantile(50).Seconds() - 1)
	verdict := func(met bool) string {
		if met {
			return "met"
		}
		return "**missed**"
	}
	return fmt.Sprintf(`# Benchmark of a rebuild

Written by `+"`make bench-rebuild`"+` on the local three-node cluster, in %.0f s. Pods of a StatefulSet are deleted one
at a time, with a grace period of 5 s. The time runs from the deletion until the rebuilt pod is Ready. The pods are in
turns with Limpet, which keeps node and addresses, and on upstream host-local with the same interface plugin, in a
namespace that Limpet ignores. Limpet's agents and controller run all the time.

| what | target | measured | |
|---|---|---|---|
| rebuild: delete → Ready, median | ≤ 5 %% longer than without | %+.1f %% | %s |
| agent's highest memory with %d pods on its node (target for 250) | ≤ 40 MB | %.1f MB | %s |

| seconds | p10 | median | p90 | rebuilds | same node and addresses |
|---|---|---|---|---|---|
%s%s`, took.Seconds(), more, verdict(more <= 5), r.pods, float64(r.agent)/1e6, verdict(r.agent <= 40e6), row(r.with), row(r.without))
}
