package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// report is all that was measured.
type report struct {
	machine measure.Machine
	plugins plugins
	scenes  []played
	crowds  []throng
	memory  []memory
	took    time.Duration
}

// rows prints a scene: ADD and DEL together first, then each act.
func (p played) rows(w *strings.Builder) {
	p.row(w, "ADD+DEL", p.theirs.pair(), p.ours.pair(), p.empty.pair())
	for _, a := range p.acts {
		if !a.untimed {
			p.row(w, a.name, p.theirs[a.name], p.ours[a.name], p.empty[a.name])
		}
	}
}

func (p played) row(w *strings.Builder, what string, theirs, ours, empty measure.Sample) {
	times := "–"
	if len(theirs) > 0 {
		times = fmt.Sprintf("%.3g", measure.Ratio(ours, theirs))
	}
	fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %d, %d | %s |\n", p.name, what, theirs, ours, times, len(theirs), len(ours), empty)
}

// markdown renders the report.
func (r report) markdown() string {
	var w strings.Builder
	p := r.plugins
	fmt.Fprintf(&w, `# Benchmarks

Written by `+"`make bench`"+`, which builds limpet-ipam and upstream host-local and runs both in turns, each call a process with its environment and its
configuration on standard input. The pods ask for nothing. Read the ratios: absolute times are this machine's.

* %s
* host-local %s (%s), limpet-ipam of this commit (%s), both %s, stripped, without cgo
* %s, %.0f s in all%s

## Numbers to reach

`, r.machine, p.hostLocal, measure.Megabytes(p.hostLocalSize), measure.Megabytes(p.size), p.goVersion, r.machine.Day, r.took.Seconds(), measure.Precedence())
	w.WriteString(measure.Targets(r.targets()))
	w.WriteString("\n## One process at a time\n\nMilliseconds, median / 99th percentile (the slowest, where there are fewer than 100 runs).\n\nThe last column is limpet-ipam with nothing in use, in the same minutes.\n\n| state | what | host-local | limpet-ipam | ratio | runs | limpet-ipam, empty |\n|---|---|---|---|---|---|---|\n")
	for _, s := range r.scenes {
		s.rows(&w)
	}
	w.WriteString("\n## Many processes at once\n\nEach an ADD and then a DEL of a pod of its own: pairs in a second, and seconds of the slowest pair.\n\n| at once | in use | host-local | limpet-ipam | ratio | host-local, slowest | limpet-ipam, slowest |\n|---|---|---|---|---|---|---|\n")
	for _, t := range r.crowds {
		fmt.Fprintf(&w, "| %d | %d | %.1f/s | %.1f/s | %.1f | %.2f s | %.2f s |\n", t.processes, t.used,
			t.theirs.perSecond(), t.ours.perSecond(), t.ours.perSecond()/t.theirs.perSecond(), t.theirs.Worst().Seconds(), t.ours.Worst().Seconds())
	}
	w.WriteString("\n## Memory of one process\n\nThe highest resident memory of an ADD or DEL, mapped pages of the state file among it.\n\n| in use | host-local | limpet-ipam |\n|---|---|---|\n")
	for _, m := range r.memory {
		fmt.Fprintf(&w, "| %d | %s | %s |\n", m.used, measure.Megabytes(m.theirs), measure.Megabytes(m.ours))
	}
	return w.String()
}
