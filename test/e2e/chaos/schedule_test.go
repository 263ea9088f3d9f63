package chaos_test

import (
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/e2e/chaos"
)

var nodes = []string{"n1", "n2", "n3"}

// TestASeedIsASchedule makes the schedules of some seeds twice.
func TestASeedIsASchedule(t *testing.T) {
	first := chaos.Schedule(1, 15*time.Minute, nodes)
	if !slices.Equal(first, chaos.Schedule(1, 15*time.Minute, nodes)) {
		t.Error("one seed gives two schedules")
	}
	if slices.Equal(first, chaos.Schedule(2, 15*time.Minute, nodes)) {
		t.Error("two seeds give one schedule")
	}
}

// TestSchedules checks what a run of 15 minutes must have, whatever its seed is.
func TestSchedules(t *testing.T) {
	kinds := []chaos.Kind{
		chaos.Delete, chaos.ForceDelete, chaos.Evict, chaos.Rollout, chaos.Scale, chaos.KillAgent, chaos.KillControllers, chaos.KillPlugins,
		chaos.KillContainerd, chaos.KillKubelet, chaos.KillAPIServer, chaos.Drain, chaos.PowerLoss, chaos.Partition, chaos.DamageState, chaos.RollBackState, chaos.FillDisk,
		chaos.DamagePlugin, chaos.ReplacePlugins, chaos.ReplaceState,
	}
	for seed := range uint64(50) {
		faults := chaos.Schedule(seed, 15*time.Minute, nodes)
		count := map[chaos.Kind]int{}
		busy := time.Duration(0)
		for i, f := range faults {
			count[f.Kind]++
			if i > 0 && f.At < faults[i-1].At {
				t.Errorf("seed %d: %s comes before %s", seed, f, faults[i-1])
			}
			if f.At > 15*time.Minute-10*time.Second {
				t.Errorf("seed %d: %s begins at the end", seed, f)
			}
			if slices.Contains(kinds[11:], f.Kind) {
				if f.At < busy {
					t.Errorf("seed %d: %s begins while another node is disturbed", seed, f)
				}
				busy = f.At + f.For
			}
		}
		for _, k := range kinds {
			if count[k] == 0 {
				t.Errorf("seed %d has no fault %q", seed, k)
			}
		}
	}
}
