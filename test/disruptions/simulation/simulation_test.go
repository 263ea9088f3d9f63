package simulation_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/test/disruptions"
	"github.com/limpet-io/limpet/test/disruptions/simulation"
)

var (
	schedules = flag.Int("schedules", 3000, "`number` of schedules that TestSchedules runs")
	first     = flag.Uint64("first", 1, "`seed` of the first schedule")
	trace     = flag.Bool("trace", false, "log all events of the schedules that TestSchedules runs")
)

// totals sums up what schedules came to.
type totals struct {
	disruptions, losses, refusals, conflicts, unfinished int
	unready                                              int
	decided                                              map[budget.Reason]int
	ways                                                 map[budget.Vector]int
}

func (s *totals) add(o simulation.Outcome) {
	s.disruptions, s.losses, s.refusals = s.disruptions+o.Disruptions, s.losses+o.Losses, s.refusals+o.Refusals
	s.conflicts, s.unfinished = s.conflicts+o.Conflicts, s.unfinished+o.Unfinished
	for reason, n := range o.Decided {
		s.decided[reason] += n
	}
	s.unready += o.Unready
	for way, n := range o.Ways {
		s.ways[way] += n
	}
}

// TestSchedules runs schedules, one for each seed, and checks what their API server wrote.
//
//	go test ./test/disruptions/simulation -run TestSchedules -schedules 100000 -timeout 1h
//	go test ./test/disruptions/simulation -run TestSchedules -first 4711 -schedules 1 -trace -v
func TestSchedules(t *testing.T) {
	sum, failures := totals{decided: map[budget.Reason]int{}, ways: map[budget.Vector]int{}}, 0
	if testing.Short() {
		*schedules = min(*schedules, 600)
	}
	for seed := *first; seed < *first+uint64(*schedules) && failures < 5; seed++ {
		o := simulation.Run(seed, simulation.Sound)
		sum.add(o)
		if *trace {
			for _, e := range o.Events {
				t.Log(line(e))
			}
		}
		if len(o.Violations) > 0 {
			failures++
			t.Errorf("seed %d: %v", seed, o.Violations)
		}
	}
	t.Logf("%+v", sum)
	if *schedules < 100 {
		return
	}
	for what, n := range map[string]int{
		"disruptions": sum.disruptions / 10, "losses": sum.losses / 2, "refusals": sum.refusals / 10, "conflicts of books": sum.conflicts,
		"units": sum.decided[budget.ReasonUnits], "pods that are not available": sum.decided[budget.ReasonNotAvailable],
		"repeated calls": sum.decided[budget.ReasonTaken], "exhausted budgets": sum.decided[budget.ReasonExhausted],
		"refusals for a PodDisruptionBudget": sum.decided[budget.ReasonPDB], "lost places": sum.decided[budget.ReasonNode],
		"pods that are given away": sum.ways[budget.Leave], "pods that go by intent": sum.ways[budget.Teardown],
		"accounted pods": sum.decided[budget.ReasonPolicy], "ended nodes": sum.ways[budget.NodeEnd],
		"pods that are not Ready and stay": sum.unready,
	} {
		if n < *schedules/50 {
			t.Errorf("%d %s in %d schedules test little", n, what, *schedules)
		}
	}
}

// TestBrokenVariantsAreFound runs the same schedules with code that has one fault.
func TestBrokenVariantsAreFound(t *testing.T) {
	for variant, want := range map[simulation.Variant]disruptions.Rule{
		simulation.Unguarded:    disruptions.Below,
		simulation.NoEntry:      disruptions.Below,
		simulation.ShortEntry:   disruptions.Below,
		simulation.NoFence:      disruptions.Below,
		simulation.OwnBooks:     disruptions.Below,
		simulation.NoCompare:    disruptions.Below,
		simulation.NoSize:       disruptions.Below,
		simulation.NoAbsent:     disruptions.Below,
		simulation.NoForeign:    disruptions.Below,
		simulation.NoBare:       disruptions.Below,
		simulation.Forgetful:    disruptions.Below,
		simulation.NoParting:    disruptions.Below,
		simulation.EarlyLeave:   disruptions.Below,
		simulation.LateEviction: disruptions.Below,
		simulation.AnyEnder:     disruptions.Below,
		simulation.ClockEnds:    disruptions.Below,
		simulation.NoStatus:     disruptions.Below,
		simulation.NoUnready:    disruptions.Short,
		simulation.NoPlace:      disruptions.Place,
		simulation.NoPDB:        disruptions.Stalled,
		simulation.DenyAll:      disruptions.Stalled,
	} {
		t.Run(string(variant), func(t *testing.T) {
			const most = 2000
			before := map[simulation.Variant]uint64{simulation.NoPDB: 1300}[variant] // the seeds up to here find nothing
			for seed := before + 1; seed <= before+most; seed++ {
				for _, v := range simulation.Run(seed, variant).Violations {
					if v.Rule == want {
						t.Logf("seed %d: %v", seed, v)
						return
					}
				}
			}
			t.Errorf("no violation of %s in %d schedules", want, most)
		})
	}
}

// TestASeedIsASchedule runs schedules twice.
func TestASeedIsASchedule(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		var runs [2]string
		for i := range runs {
			for _, e := range simulation.Run(seed, simulation.Sound).Events {
				runs[i] += fmt.Sprintln(line(e))
			}
		}
		if runs[0] != runs[1] || runs[0] == "" {
			t.Errorf("two runs of seed %d differ", seed)
		}
	}
}
