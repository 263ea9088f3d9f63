package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// scenario is a state, and steps that one process after the other runs on it.
type scenario struct {
	name   string // of the state
	used   int    // addresses in use, or reserved
	rounds int
	// repeat is how often limpet-ipam runs the steps in a round. host-local may be slow, and
	// runs them once.
	repeat int
	// prepare creates the state.
	prepare func(ctx context.Context, c *candidate, n int) error
	steps   []step
	// limpetOnly leaves out host-local, which has no reservations, or would take hours.
	limpetOnly bool
	// memory tells to measure the memory of the verbs, too.
	memory bool
	// commands are those whose CPU time is measured afterwards.
	commands []string
	// check looks at the state of limpet-ipam after so many runs of the steps; nil for no check.
	check func(ctx context.Context, c *candidate, runs int) error
}

// step is a verb whose duration is measured.
type step struct {
	name, verb string
	pod        func(i int) string
	untimed    bool // only restores the state
}

var (
	start   = step{name: "process start (VERSION)", verb: "VERSION", pod: func(int) string { return "" }}
	add     = step{name: "ADD", verb: "ADD", pod: newPod}
	end     = step{name: "DEL", verb: "DEL", pod: newPod}
	unknown = step{name: "DEL of an unknown container", verb: "DEL", pod: func(i int) string { return fmt.Sprintf("unknown-%d", i) }}
	claim   = step{name: "ADD that claims a reservation", verb: "ADD", pod: reservedPod}
	unclaim = step{verb: "DEL", pod: reservedPod, untimed: true} // a DEL without the result of the ADD rolls the ADD back
)

func newPod(i int) string      { return fmt.Sprintf("new-%d", i) }
func reservedPod(i int) string { return fmt.Sprintf("pod-%d", i*97) }

var scenarios = []scenario{
	{name: nothingInUse, rounds: 400, repeat: 1, prepare: inUse, steps: []step{start, add, end, unknown}},
	{name: "1 000 in use", used: 1000, rounds: 150, repeat: 1, prepare: inUse, steps: []step{add, end, unknown}},
	{name: "10 000 in use", used: 10_000, rounds: 60, repeat: 2, prepare: inUse, steps: []step{add, end, unknown}},
	{name: fiftyThousand, used: 50_000, rounds: 25, repeat: 8, prepare: inUse, steps: []step{add, end, unknown}},
	{name: aMillion, used: 1_000_000, rounds: 200, repeat: 1, prepare: million, steps: []step{add, end, unknown}, limpetOnly: true, memory: true, commands: []string{"list", "check"}},
	{name: "10 000 in use, the only free one behind the cursor", used: 10_000, rounds: 40, repeat: 3, prepare: fullButOne, steps: []step{add, end}},
	{name: "50 000 in use, the only free one behind the cursor", used: 50_000, rounds: 15, repeat: 8, prepare: fullButOne, steps: []step{add, end}},
	{name: "50 000 reserved", used: 50_000, rounds: 200, repeat: 1, prepare: reserved, steps: []step{add, end, claim, unclaim}, limpetOnly: true},
	{name: "0 in use, pods that ask", rounds: 300, repeat: 1, prepare: asking(inUse), steps: []step{add, end}},
	{name: atTheShare, used: 10_000, rounds: 200, repeat: 1, prepare: asking(reserved), steps: []step{add, end}, limpetOnly: true},
	{name: ofSeven, used: 10_000, rounds: 200, repeat: 1, prepare: asking(reservedOfSeven), steps: []step{add, end}, limpetOnly: true, memory: true},
	{name: allTaken, used: wholeRange, rounds: 200, repeat: 1, prepare: asking(nothingFree), steps: []step{add, end}, limpetOnly: true, memory: true, check: eachReclaimed},
	{name: afterARestart, used: 10_000, rounds: 200, repeat: 1, prepare: asking(reservedBefore), steps: []step{add, end}, limpetOnly: true},
	{name: allEnded, used: 50_000, rounds: 200, repeat: 1, prepare: emptied, steps: []step{add, end}, limpetOnly: true},
}

// atTheShare is the most reservations that a pool of any size may hold. Each DEL of a pod that asks displaces one.
const atTheShare = "10 000 reserved, the share, pods that ask"

// ofSeven is the same with reservations of seven namespaces, one after the other.
const ofSeven = "10 000 reserved of seven namespaces, the share, pods that ask"

const (
	// allTaken has no free address: each ADD takes that of the reservation that ends first, and the DEL reserves it again.
	allTaken = "a full /16 with 10 000 reserved, pods that ask"
	// wholeRange is how many addresses of a /16 pods can have.
	wholeRange = 65_533
	// afterARestart is the same with reservations that began before a restart of the node.
	afterARestart = "10 000 reserved before a restart of the node, the share, pods that ask"
	nothingInUse  = "0 in use"
	fiftyThousand = "50 000 in use"
	aMillion      = "1 000 000 in use of a /12"
	allEnded      = "50 000 have ended"
)

func inUse(ctx context.Context, c *candidate, n int) error { return c.fill(ctx, c.dir, n) }

// million prepares a state of the largest range that is measured.
func million(ctx context.Context, c *candidate, n int) error {
	c.ranges = largeSubnet
	return fillMillion(ctx, c.dir, n)
}

func reserved(ctx context.Context, c *candidate, n int) error {
	clocks, err := machine.ReadClocks(machine.BootIDPath, time.Now)
	if err != nil {
		return err
	}
	return fillReserved(ctx, c.dir, n, 1, clocks())
}

// reservedOfSeven prepares a state in which each DEL displaces a reservation of the namespace that came last.
func reservedOfSeven(ctx context.Context, c *candidate, n int) error {
	clocks, err := machine.ReadClocks(machine.BootIDPath, time.Now)
	if err != nil {
		return err
	}
	return fillReserved(ctx, c.dir, n, 7, clocks())
}

// nothingFree prepares a range without a free address. As many are reserved as may be, and the others are in use.
func nothingFree(ctx context.Context, c *candidate, n int) error {
	kept := min(n, reservation.MaxSharePods)
	first := firstAddress
	for range kept {
		first = first.Next()
	}
	if err := attach(ctx, c.dir, kept, n, first); err != nil {
		return err
	}
	return reserved(ctx, c, kept)
}

var errNoReclaim = errors.New("not each ADD reclaimed an address")

// eachReclaimed reports an error unless each ADD ended a reservation for its address.
func eachReclaimed(ctx context.Context, c *candidate, runs int) error {
	return persistence.New(persistence.Options{Dir: c.dir}).View(ctx, func(tx *persistence.Tx) error {
		usage, err := tx.PoolUsage(network)
		if err == nil && usage.Reclaimed != uint64(runs) { //nolint:gosec // runs are counted from 0
			err = fmt.Errorf("%w: %d of %d", errNoReclaim, usage.Reclaimed, runs)
		}
		return err
	})
}

// reservedBefore prepares a state whose reservations began before a restart of the machine.
func reservedBefore(ctx context.Context, c *candidate, n int) error {
	return fillReserved(ctx, c.dir, n, 1, reservation.Moment{Wall: time.Now()})
}

// asking prepares a state for pods that ask for a reservation.
func asking(prepare func(context.Context, *candidate, int) error) func(context.Context, *candidate, int) error {
	return func(ctx context.Context, c *candidate, n int) error {
		c.asks = true
		return prepare(ctx, c, n)
	}
}

// emptied attaches addresses and ends all of them.
func emptied(ctx context.Context, c *candidate, n int) error {
	if err := c.fill(ctx, c.dir, n); err != nil {
		return err
	}
	return emptyLimpet(ctx, c.dir)
}

// fullButOne ends the range at the first address that is not in use. The first ADD finds the
// address at once, every other ADD has to search the whole range.
func fullButOne(ctx context.Context, c *candidate, n int) error {
	last := firstAddress
	for range n {
		last = last.Next()
	}
	c.ranges = fmt.Sprintf(`{"subnet":"10.1.0.0/16","rangeEnd":%q}`, last)
	return c.fill(ctx, c.dir, n)
}

// times are the samples of a candidate, by step.
type times map[string]measure.Sample

// pair returns the sums of ADD and DEL.
func (t times) pair() measure.Sample {
	var both measure.Sample
	for i, took := range t[add.name] {
		both = append(both, took+t[end.name][i])
	}
	return both
}

// scenarioResult holds the measurements of a scenario. empty holds those of limpet-ipam on an
// empty state, in the same minutes.
type scenarioResult struct {
	scenario
	hostLocal, limpet, empty times
	peaks                    []memory
	cpu                      []time.Duration // of the commands
}

// participant is a candidate in a scenario.
type participant struct {
	*candidate
	used  int
	to    times
	turns int // in a round
}

// run measures all participants in turns, so that all meet the same conditions.
func (s scenario) run(ctx context.Context, b bench) (scenarioResult, error) {
	p := scenarioResult{scenario: s, hostLocal: times{}, limpet: times{}, empty: times{}}
	dir, err := os.MkdirTemp(b.dir, "scenario-")
	if err != nil {
		return p, fmt.Errorf("measure: %w", err)
	}
	defer b.remove(dir)
	all := []participant{
		{newHostLocal(b.binaries, dir), s.used, p.hostLocal, 1},
		{newLimpet(b.binaries, dir), s.used, p.limpet, s.repeat},
		{newLimpet(b.binaries, dir+"/empty"), 0, p.empty, s.repeat},
	}
	if s.limpetOnly {
		all = all[1:]
	}
	for _, one := range all {
		one.through = b.through
		if err := s.prepare(ctx, one.candidate, one.used); err != nil {
			return p, err
		}
		if err := s.runSteps(ctx, one.candidate, 0, times{}); err != nil { // the first run creates files and fills caches
			return p, err
		}
	}
	for i := range s.rounds {
		b.progress(s.name, i, s.rounds)
		if err := s.round(ctx, all, i); err != nil {
			return p, err
		}
	}
	if s.check != nil {
		err = s.check(ctx, all[len(all)-2].candidate, 1+s.rounds*s.repeat)
	}
	if err == nil && s.memory {
		p.peaks, err = s.measurePeaks(ctx, all)
	}
	for _, command := range s.commands {
		took, cpuErr := all[0].cpu(ctx, command)
		p.cpu, err = append(p.cpu, took), errors.Join(err, cpuErr)
	}
	return p, err
}

// measurePeaks measures the memory of limpet-ipam in the state, and on an empty one.
func (s scenario) measurePeaks(ctx context.Context, all []participant) (peaks []memory, err error) {
	for _, one := range all {
		highest, err := highestPeak(ctx, one.candidate)
		if err != nil {
			return nil, err
		}
		state := s.name
		if one.used == 0 {
			state = "nothing in use, beside: " + s.name
		}
		peaks = append(peaks, memory{state: state, limpet: highest})
	}
	return peaks, nil
}

func (s scenario) round(ctx context.Context, all []participant, i int) error {
	for j := range s.repeat {
		for _, one := range all {
			if j >= one.turns {
				continue
			}
			if err := s.runSteps(ctx, one.candidate, 1+i*s.repeat+j, one.to); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s scenario) runSteps(ctx context.Context, c *candidate, i int, to times) error {
	for _, a := range s.steps {
		took, err := c.do(ctx, a.verb, a.pod(i))
		if err != nil {
			return err
		}
		if !a.untimed {
			to[a.name] = append(to[a.name], took)
		}
	}
	return nil
}
