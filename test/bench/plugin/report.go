package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// report holds all measurements.
type report struct {
	machine   measure.Machine
	plugins   plugins
	scenarios []scenarioResult
	loads     []loadResult
	share     shareResult
	disturbed []disturbedResult
	memory    []memory
	took      time.Duration
}

// rows prints a scenario: first ADD and DEL together, then each step.
func (p scenarioResult) rows(w *strings.Builder) {
	p.row(w, "ADD+DEL", p.hostLocal.pair(), p.limpet.pair(), p.empty.pair())
	for _, a := range p.steps {
		if !a.untimed {
			p.row(w, a.name, p.hostLocal[a.name], p.limpet[a.name], p.empty[a.name])
		}
	}
}

func (p scenarioResult) row(w *strings.Builder, what string, hostLocal, limpet, empty measure.Sample) {
	ratio := "–"
	if len(hostLocal) > 0 {
		ratio = fmt.Sprintf("%.3g", measure.Ratio(limpet, hostLocal))
	}
	fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %d, %d | %s |\n", p.name, what, hostLocal, limpet, ratio, len(hostLocal), len(limpet), empty)
}

// aboveStart prints what verbs take beyond the start of their process.
func (r report) aboveStart(w *strings.Builder) {
	idle := r.scenario(nothingInUse)
	w.WriteString("\n## Above the start of the process\n\nMilliseconds beyond what a process takes that does nothing, with an empty pool: medians one at a time, and means of a pair per core under load.\n\n| what | host-local | limpet-ipam |\n|---|---|---|\n")
	for _, s := range []step{add, end, unknown} {
		above := func(t times) string { return measure.Millis(max(t[s.name].Median()-t[start.name].Median(), 0)) }
		fmt.Fprintf(w, "| %s, one at a time | %s | %s |\n", s.name, above(idle.hostLocal), above(idle.limpet))
	}
	for _, l := range r.loads {
		if l.used == 0 && l.starts.busy > 0 {
			fmt.Fprintf(w, "| ADD+DEL, %d at once | %.2f | %.2f |\n", l.processes, l.above(l.hostLocal), l.above(l.limpet))
		}
	}
}

// above returns how many milliseconds a pair takes longer than two starts, if the processes keep the machine busy.
func (l loadResult) above(t throughput) float64 {
	return 1000/t.perSecond() - 1000/l.starts.perSecond()
}

// markdown renders the report.
func (r report) markdown() string {
	var w strings.Builder
	p := r.plugins
	fmt.Fprintf(&w, `# Benchmarks of limpet-ipam

Written by `+"`make bench-plugin`"+`, which builds limpet-ipam and runs it and upstream host-local in turns. Each call is a process that gets its configuration on standard input. The pods ask for no retention, unless a state says so. Read the ratios: absolute times hold for this machine only.

* %s
* a process of limpet-ipam that does nothing takes %s ms, one of host-local %s ms; limpet-ipam waits for one flush in a verb that reserves, claims or is required, and for none in others, as host-local does
* host-local %s (%s), limpet-ipam of this commit (%s), both %s, stripped, without cgo
* %s, %.0f s in all

## Numbers to reach

`, r.machine, measure.Millis(r.scenario(nothingInUse).limpet[start.name].Median()), measure.Millis(r.scenario(nothingInUse).hostLocal[start.name].Median()), p.hostLocal, measure.Megabytes(p.hostLocalSize), measure.Megabytes(p.size), p.goVersion, r.machine.Day, r.took.Seconds())
	w.WriteString(measure.Targets(r.targets()))
	w.WriteString("\n## One process at a time\n\nMilliseconds, median / 99th percentile (the slowest run where there are fewer than 100 runs).\n\nThe last column is limpet-ipam with no address in use, measured in the same minutes.\n\n| state | what | host-local | limpet-ipam | ratio | runs | limpet-ipam, empty |\n|---|---|---|---|---|---|---|\n")
	for _, s := range r.scenarios {
		s.rows(&w)
	}
	r.aboveStart(&w)
	w.WriteString("\n## Many processes at once\n\nEach process is an ADD and then a DEL of a pod of its own. The columns show pairs in a second, and the duration of a pair, median / slowest.\n\n| at once | in use | host-local | limpet-ipam | ratio | host-local, a pair | limpet-ipam, a pair |\n|---|---|---|---|---|---|---|\n")
	for _, t := range r.loads {
		fmt.Fprintf(&w, "| %d | %d | %.1f/s | %.1f/s | %.1f | %s | %s |\n", t.processes, t.used,
			t.hostLocal.perSecond(), t.limpet.perSecond(), t.limpet.perSecond()/t.hostLocal.perSecond(), t.hostLocal.seconds(), t.limpet.seconds())
	}
	r.share.rows(&w)
	r.disturbedRows(&w)
	w.WriteString("\n## Memory of one process\n\nThe highest resident memory of an ADD or DEL, including mapped pages of the state file.\n\n| state | host-local | limpet-ipam |\n|---|---|---|\n")
	for _, m := range r.memory {
		hostLocal := "–"
		if m.hostLocal > 0 {
			hostLocal = measure.Megabytes(m.hostLocal)
		}
		fmt.Fprintf(&w, "| %s | %s | %s |\n", m.state, hostLocal, measure.Megabytes(m.limpet))
	}
	return measure.Fold(w.String())
}
