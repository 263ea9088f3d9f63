package main

import (
	"fmt"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

const (
	maxBinary = 4_300_000
	maxPeak   = 12_000_000
)

// whyLoad explains misses of both targets of 32 at once.
const whyLoad = "a pair of limpet-ipam uses two cores; a pair of host-local uses one core: other work on the machine slows limpet-ipam more."

// whySpread explains a miss of the target of 200 at once.
const whySpread = "verbs get the lock in the order in which they came, and 200 processes start on the cores of the machine in an order of the kernel's."

// whyMillion explains a miss of the target of a large range.
const whyMillion = "one verb in four compares a part of the fold with its checksum, and an empty pool has less."

// whyRestart explains a miss of the target after a restart of the node.
const whyRestart = "a restart changes the clock by which reservations are in order. Until they end, a DEL reads the entries of all of them."

// whyPair explains a miss of the target of the empty pool.
func (r report) whyPair() string {
	return fmt.Sprintf("a process that does nothing takes %s ms; a verb reads the state and writes one frame of the journal, without a flush.",
		measure.Millis(r.scenario(nothingInUse).limpet[start.name].Median()))
}

// whyCommands explains a miss of the target of commands that read a million records.
const whyCommands = "half is reading records, each a JSON text; then come writing rows or comparing indexes, and mapping the pages of the file."

// targets compares what was measured with the numbers to reach.
func (r report) targets() []measure.Target {
	empty, full := r.scenario(nothingInUse), r.scenario(fiftyThousand)
	busy := r.load(10_000, 32)
	ratio := measure.Ratio(empty.limpet.pair(), empty.hostLocal.pair())
	grows := measure.Ratio(full.limpet.pair(), full.empty.pair())
	theirGrowth := measure.Ratio(full.hostLocal.pair(), empty.hostLocal.pair())
	repeats := measure.Ratio(full.limpet[unknown.name], full.limpet[add.name])
	through := busy.limpet.perSecond() / busy.hostLocal.perSecond()
	million := measure.Ratio(r.scenario(aMillion).limpet.pair(), r.scenario(aMillion).empty.pair())
	share := measure.Ratio(r.scenario(atTheShare).limpet.pair(), r.scenario(atTheShare).empty.pair())
	seven := measure.Ratio(r.scenario(ofSeven).limpet.pair(), r.scenario(ofSeven).empty.pair())
	reclaims := measure.Ratio(r.scenario(allTaken).limpet.pair(), r.scenario(allTaken).empty.pair())
	restarted := measure.Ratio(r.scenario(afterARestart).limpet.pair(), r.scenario(afterARestart).empty.pair())
	after := measure.Ratio(r.scenario(allEnded).limpet.pair(), r.scenario(allEnded).empty.pair())
	worst := busy.limpet.Worst()
	crowd := r.load(0, 200).limpet
	spread := crowd.Worst().Seconds() / max(crowd.Median(), 1).Seconds()
	var highest int64
	for _, m := range r.memory {
		highest = max(highest, m.limpet)
	}
	targets := []measure.Target{
		{What: "ADD+DEL, empty pool", Limit: "≤ 1.0 × host-local", Got: fmt.Sprintf("%.2f ×", ratio), Met: ratio <= 1.0, Why: r.whyPair()},
		{What: "ADD+DEL with 50 000 addresses in use", Limit: "≤ 1.2 × own empty pool", Got: fmt.Sprintf("%.2f × (host-local: %.0f ×)", grows, theirGrowth), Met: grows <= 1.2},
		{What: "ADD+DEL with 1 000 000 addresses in use", Limit: "≤ 1.2 × own empty pool", Got: fmt.Sprintf("%.2f ×", million), Met: million <= 1.2, Why: whyMillion},
		{What: "ADD+DEL at the share of reservations", Limit: "≤ 1.5 × own empty pool", Got: fmt.Sprintf("%.2f ×", share), Met: share <= 1.5},
		{What: "ADD+DEL at the share, reservations of seven namespaces", Limit: "≤ 1.5 × own empty pool", Got: fmt.Sprintf("%.2f ×", seven), Met: seven <= 1.5},
		{What: "ADD+DEL where each ADD reclaims an address", Limit: "≤ 1.5 × own empty pool", Got: fmt.Sprintf("%.2f ×", reclaims), Met: reclaims <= 1.5},
		{What: "ADD+DEL at the share, after a restart of the node", Limit: "≤ 1.5 × own empty pool", Got: fmt.Sprintf("%.2f ×", restarted), Met: restarted <= 1.5, Why: whyRestart},
		{What: "ADD+DEL after 50 000 have ended", Limit: "≤ 1.2 × own empty pool", Got: fmt.Sprintf("%.2f ×", after), Met: after <= 1.2},
		{What: "repeated DEL of an unknown container at 50 000", Limit: "≤ 1.0 × own ADD", Got: fmt.Sprintf("%.2f ×", repeats), Met: repeats <= 1.0},
		{What: "32 at once, 10 000 in use: throughput", Limit: "≥ 35 × host-local", Got: fmt.Sprintf("%.0f ×", through), Met: through >= 35, Why: whyLoad},
		{What: "32 at once, 10 000 in use: worst pair", Limit: "≤ 0.5 s", Got: fmt.Sprintf("%.2f s", worst.Seconds()), Met: worst <= 500*time.Millisecond, Why: whyLoad},
		{What: shareLoadName + ": a pair", Limit: "≤ 1.5 × own empty pool", Got: fmt.Sprintf("%.2f ×", r.share.ratio()), Met: r.share.ratio() <= 1.5},
		{What: shareLoadName + ": worst pair", Limit: "≤ 0.5 s", Got: fmt.Sprintf("%.2f s", r.share.full.Worst().Seconds()), Met: r.share.full.Worst() <= 500*time.Millisecond, Why: whyLoad},
		{What: "200 at once: worst pair", Limit: "≤ 3 × median", Got: fmt.Sprintf("%.1f ×", spread), Met: spread <= 3, Why: whySpread},
		{What: "plugin binary", Limit: "≤ 4.3 MB (4 300 000 bytes)", Got: measure.Megabytes(r.plugins.size), Met: r.plugins.size <= maxBinary},
		{What: "peak memory of one process", Limit: "≤ 12 MB (12 000 000 bytes)", Got: measure.Megabytes(highest), Met: highest <= maxPeak},
	}
	for i, took := range r.scenario(aMillion).cpu {
		command := r.scenario(aMillion).commands[i]
		targets = append(targets, measure.Target{What: command + " of 1 000 000: CPU", Limit: "≤ 3 s", Got: fmt.Sprintf("%.1f s", took.Seconds()), Met: took <= 3*time.Second, Why: whyCommands})
	}
	for i, d := range r.disturbed {
		if i == 0 {
			continue
		}
		if d.busy > 0 {
			got := d.plain.ratio()
			targets = append(targets, measure.Target{What: "ADD+DEL beside " + d.String(), Limit: "≤ 1.0 × host-local", Got: fmt.Sprintf("%.2f ×", got), Met: got <= 1.0, Why: whyLoad})
			continue
		}
		got, limit := d.asking.more()-r.disturbed[0].asking.more(), d.flush+time.Millisecond
		targets = append(targets, measure.Target{What: "ADD+DEL of a pod that asks, " + d.String(), Limit: "one flush", Got: fmt.Sprintf("%.2f ms", float64(got.Microseconds())/1000), Met: got <= limit})
	}
	return targets
}

// scenario returns the result with this name; the zero value when it was not measured.
func (r report) scenario(name string) scenarioResult {
	for _, p := range r.scenarios {
		if p.name == name {
			return p
		}
	}
	return scenarioResult{}
}

// load returns the result of a load; the zero value when it was not measured.
func (r report) load(used, processes int) loadResult {
	for _, t := range r.loads {
		if t.used == used && t.processes == processes {
			return t
		}
	}
	return loadResult{}
}
