package disruptions_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/limpet-io/limpet/test/disruptions"
)

// TestLinesMayBeInAnyOrder shuffles logs: versions and times tell their order.
func TestLinesMayBeInAnyOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		good, bad := conforming(), newLog().evict("a").ends("a").create("d").evict("b").ends("b")
		for _, l := range []*log{good, bad} {
			random.Shuffle(len(l.events), func(i, j int) { l.events[i], l.events[j] = l.events[j], l.events[i] })
		}
		wantRules(t, good.check())
		wantRules(t, bad.check(), disruptions.Below)
	}
}

// TestADroppedLineIsFound drops each line of a log. The lines that may be missing are listed:
// without them, the log says the same or less, and nothing wrong.
func TestADroppedLineIsFound(t *testing.T) {
	harmless := []string{
		"1 create podunavailablebudgets/ all",              // nothing is promised without a budget
		"3 patch pods/status a",                            // a pod that was never Ready is evicted
		"9 patch pods/status a",                            // the end of an evicted pod: the eviction is there
		"14 patch pods/status b", "22 patch pods/status c", // the same after a deletion
		"24 patch pods/status d", "31 patch pods/status f", //
		"35 patch pods/status g",                                 //
		"11 create pods/eviction b", "15 create pods/eviction c", // refusals
		"18 patch pods/status d", "19 patch pods/status d", // a crash, and the pod is deleted later
		"25 update replicasets/ web", // a smaller workload must have less
		"27 patch pods/status f",     // another pod that was never Ready
	}
	all, harmlessSeen := conforming().events, 0
	for i, e := range all {
		what := fmt.Sprintf("%d %s %s/%s %s", i, e.Verb, e.Resource, e.Subresource, e.Name)
		l := &log{events: slices.Delete(slices.Clone(all), i, i+1)}
		found := len(l.check().Violations) > 0
		if slices.Contains(harmless, what) {
			harmlessSeen++
		}
		if found == slices.Contains(harmless, what) {
			t.Errorf("drop %s: violations found: %t", what, found)
		}
	}
	if harmlessSeen != len(harmless) || len(all) < 2*harmlessSeen {
		t.Errorf("%d of %d lines are harmless, and the test lists %d", harmlessSeen, len(all), len(harmless))
	}
}

// TestSwappedVersionsAreFound gives two changes the version of each other.
func TestSwappedVersionsAreFound(t *testing.T) {
	swaps := 0
	for i := range conforming().events {
		for j := range i {
			l := conforming()
			a, b := &l.events[i], &l.events[j]
			if a.Version == 0 || b.Version == 0 {
				continue
			}
			swaps++
			a.Version, b.Version = b.Version, a.Version
			if rules(l.check())[disruptions.Order] == 0 {
				t.Errorf("swap versions %d and %d: not found", a.Version, b.Version)
			}
		}
	}
	if swaps < 100 {
		t.Errorf("%d swaps test little", swaps)
	}
}

// TestAForgedVersionIsFound gives a change the version of another object's change.
func TestAForgedVersionIsFound(t *testing.T) {
	l := conforming()
	last := len(l.events) - 1
	l.events[last].Version = l.events[0].Version
	wantRules(t, l.check(), disruptions.Order)
}

// TestARepeatedAnswerChangesNothing adds requests that changed nothing: their answers repeat an
// earlier version.
func TestARepeatedAnswerChangesNothing(t *testing.T) {
	l := conforming()
	for _, e := range slices.Clone(l.events) {
		if e.Version == 0 || e.Workload != nil && e.Workload.Gone {
			continue
		}
		e.Received, e.Done = e.Received.Add(20e9), e.Done.Add(20e9)
		l.events = append(l.events, e)
	}
	wantRules(t, l.check())
}

// TestADryRunChangesNothing adds dry runs of all that happened.
func TestADryRunChangesNothing(t *testing.T) {
	l := newLog()
	for _, name := range []string{"a", "b", "c"} {
		l.evict(name)
		l.events[len(l.events)-1].DryRun = true
	}
	wantRules(t, l.check())
}
