package chaos

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// quiet is the time before the end in which no fault begins.
const quiet = 15 * time.Second

// Schedule returns the faults of a seed, by their time. Each kind of a lane comes once before one
// of them comes again.
func Schedule(seed uint64, length time.Duration, nodes []string) []Fault {
	random := rand.New(rand.NewPCG(seed, 0x11a9e7)) //nolint:gosec // the schedule must be repeatable
	var all []Fault
	for _, l := range lanes {
		all = append(all, l.faults(random, length-quiet, nodes)...)
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return all
}

// faults returns the faults of one lane that begin before the end.
func (l lane) faults(random *rand.Rand, end time.Duration, nodes []string) []Fault {
	var found []Fault
	var left []Kind
	for at := l.wait(random) / 2; at < end; at += l.wait(random) {
		if len(left) == 0 {
			left = slices.Clone(l.kinds)
			random.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		f := Fault{At: at, Kind: left[0], Node: nodes[random.IntN(len(nodes))], Pick: random.Uint64()}
		left = left[1:]
		if bounds := lasts[f.Kind]; bounds[1] > 0 {
			f.For = bounds[0] + time.Duration(random.Int64N(int64(1+bounds[1]-bounds[0])))
		}
		if !ofNode(f.Kind) {
			f.Node = ""
		}
		at += f.For
		found = append(found, f)
	}
	return found
}

func (l lane) wait(random *rand.Rand) time.Duration {
	return l.pause + time.Duration(random.Int64N(int64(l.spread)))
}

// ofNode tells that faults of a kind disturb one node.
func ofNode(k Kind) bool {
	switch k {
	case KillAgent, KillPlugins, KillContainerd, KillKubelet, Drain, PowerLoss, Partition, TakeForDead, DamageState, RollBackState, FillDisk,
		DamagePlugin, ReplacePlugins, ReplaceState:
		return true
	case Delete, ForceDelete, Evict, Rollout, Scale, KillControllers, KillAPIServer:
	}
	return false
}

// disturbsNode tells that a node need not take pods back during faults of a kind.
func disturbsNode(k Kind) bool { return slices.Contains(lanes[2].kinds, k) }
