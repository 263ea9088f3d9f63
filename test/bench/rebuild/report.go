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
func (r *rebuilds) quantile(percent int) time.Duration {
	if len(r.took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.took))
	return sorted[(len(sorted)-1)*percent/100]
}

func (r *rebuilds) row(title string) string {
	return fmt.Sprintf("| %s | %.2f | %.2f | %.2f | %d | %d | %d |\n", title, r.quantile(10).Seconds(), r.quantile(50).Seconds(),
		r.quantile(90).Seconds(), len(r.took), r.same, r.retried)
}

// markdown renders the report.
func (r report) markdown(took time.Duration) string {
	more := 100 * (r.with.ordinary.quantile(50).Seconds()/r.without.ordinary.quantile(50).Seconds() - 1)
	forced := r.with.forced.quantile(50).Seconds() / r.without.forced.quantile(50).Seconds()
	verdict := func(met bool) string {
		if met {
			return "met"
		}
		return "**missed**"
	}
	return fmt.Sprintf(`# Benchmark of a rebuild

Written by `+"`make bench-rebuild`"+` on the local three-node cluster, in %.0f s. Pods of a StatefulSet are deleted one
at a time, with a grace period of 5 s, and then by force, with none. The time runs from the deletion until the rebuilt
pod is Ready. The pods are in turns with Limpet, which keeps node and addresses, and on upstream host-local with the
same interface plugin, in a namespace that Limpet ignores. Limpet's agents and controller run all the time.

| what | target | measured | |
|---|---|---|---|
| rebuild: delete → Ready, median | ≤ 5 %% longer than without | %+.1f %% | %s |
| force delete → Ready, median | ≤ 1.2 × without | %.2f × | %s |
| sandboxes that failed after a force delete (code 11) | 0 | %d of %d | %s |
| agent's highest memory with %d pods on its node (target for 250) | ≤ 40 MB | %.1f MB | %s |

| seconds | p10 | median | p90 | rebuilds | same node and addresses | first sandbox failed |
|---|---|---|---|---|---|---|
%s%s%s%s
After a force delete the old sandbox still runs. host-local gives the successor another address at once; limpet-ipam
waits inside ADD until the old network namespace is gone, and then gives the same address. The container here ends when
it is asked to. A kubelet grants the whole grace period of the pod also after a force delete. If a container uses more
than 10 s of it (`+"`ipam.addWait`"+`), its successor also waits for the kubelet's next try.
`, took.Seconds(), more, verdict(more <= 5), forced, verdict(forced <= 1.2),
		r.with.forced.retried, len(r.with.forced.took), verdict(r.with.forced.retried == 0),
		r.pods, float64(r.agent)/1e6, verdict(r.agent <= 40e6),
		r.with.ordinary.row("with Limpet"), r.without.ordinary.row("without, on host-local"),
		r.with.forced.row("force delete, with Limpet"), r.without.forced.row("force delete, without, on host-local"))
}
