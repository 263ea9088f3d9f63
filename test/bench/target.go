package main

import (
	"fmt"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

const (
	maxBinary = 4_000_000
	maxPeak   = 12_000_000
)

// whyCrowd holds for both targets of 32 at once.
const whyCrowd = "a pair of limpet-ipam needs both cores and waits for four syncs of the disk, one of host-local a single core: " +
	"whatever else runs on the machine takes more from limpet-ipam."

// targets compares what was measured with the numbers to reach.
func (r report) targets() []measure.Target {
	empty, full := r.scene("0 in use"), r.scene(fiftyThousand)
	busy := r.crowd(10_000, 32)
	beside := measure.Ratio(empty.ours.pair(), empty.theirs.pair())
	grows := measure.Ratio(full.ours.pair(), full.empty.pair())
	theirGrowth := measure.Ratio(full.theirs.pair(), empty.theirs.pair())
	repeats := measure.Ratio(full.ours[unknown.name], full.ours[add.name])
	through := busy.ours.perSecond() / busy.theirs.perSecond()
	worst := busy.ours.Worst()
	var highest int64
	for _, m := range r.memory {
		highest = max(highest, m.ours)
	}
	return []measure.Target{
		{What: "ADD+DEL, empty pool", Limit: "≤ 1.0 × host-local", Got: fmt.Sprintf("%.2f ×", beside), Met: beside <= 1.0},
		{What: "ADD+DEL with 50 000 addresses in use", Limit: "≤ 1.2 × own empty pool", Got: fmt.Sprintf("%.2f × (host-local: %.0f ×)", grows, theirGrowth), Met: grows <= 1.2},
		{What: "repeated DEL of an unknown container at 50 000", Limit: "≤ 1.0 × own ADD", Got: fmt.Sprintf("%.2f ×", repeats), Met: repeats <= 1.0},
		{What: "32 at once, 10 000 in use: throughput", Limit: "≥ 35 × host-local", Got: fmt.Sprintf("%.0f ×", through), Met: through >= 35, Why: whyCrowd},
		{What: "32 at once, 10 000 in use: worst pair", Limit: "≤ 0.5 s", Got: fmt.Sprintf("%.2f s", worst.Seconds()), Met: worst <= 500*time.Millisecond, Why: whyCrowd},
		{What: "plugin binary", Limit: "≤ 4 MB (4 000 000 bytes)", Got: measure.Megabytes(r.plugins.size), Met: r.plugins.size <= maxBinary},
		{What: "peak memory of one process", Limit: "≤ 12 MB (12 000 000 bytes)", Got: measure.Megabytes(highest), Met: highest <= maxPeak},
	}
}

func (r report) scene(name string) played {
	for _, p := range r.scenes {
		if p.name == name {
			return p
		}
	}
	return played{}
}

func (r report) crowd(used, processes int) throng {
	for _, t := range r.crowds {
		if t.used == used && t.processes == processes {
			return t
		}
	}
	return throng{}
}
