package main

import (
	"fmt"
	"time"
)

// target is a number to reach, from docs/design/0001-architecture.md.
type target struct {
	what, limit string
	got         string
	met         bool
}

// targets compares what was measured with the numbers to reach.
func (r report) targets() []target {
	empty, full := r.scene("0 in use"), r.scene(fiftyThousand)
	busy := r.crowd(10_000, 32)
	beside := ratio(empty.ours.pair(), empty.theirs.pair())
	grows := ratio(full.ours.pair(), full.empty.pair())
	theirGrowth := ratio(full.theirs.pair(), empty.theirs.pair())
	repeats := ratio(full.ours[unknown.name], full.ours[add.name])
	through := busy.ours.perSecond() / busy.theirs.perSecond()
	worst := busy.ours.worst()
	var highest int64
	for _, m := range r.memory {
		highest = max(highest, m.ours)
	}
	return []target{
		{"ADD+DEL, empty pool", "≤ 1.0 × host-local", fmt.Sprintf("%.2f ×", beside), beside <= 1.0},
		{"ADD+DEL with 50 000 addresses in use", "≤ 1.2 × own empty pool", fmt.Sprintf("%.2f × (host-local: %.0f ×)", grows, theirGrowth), grows <= 1.2},
		{"repeated DEL of an unknown container at 50 000", "≤ 1.0 × own ADD", fmt.Sprintf("%.2f ×", repeats), repeats <= 1.0},
		{"32 at once, 10 000 in use: throughput", "≥ 35 × host-local", fmt.Sprintf("%.0f ×", through), through >= 35},
		{"32 at once, 10 000 in use: worst pair", "≤ 0.5 s", fmt.Sprintf("%.2f s", worst.Seconds()), worst <= 500*time.Millisecond},
		{"plugin binary", "≤ 4 MB (4 000 000 bytes)", megabytes(r.machine.size), r.machine.size <= maxBinary},
		{"peak memory of one process", "≤ 12 MB (12 000 000 bytes)", megabytes(highest), highest <= maxPeak},
	}
}

const (
	maxBinary = 4_000_000
	maxPeak   = 12_000_000
)

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

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
