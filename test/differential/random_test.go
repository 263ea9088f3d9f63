package differential_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var (
	seed      = flag.Uint64("seed", 0, "seed of the random sequences; 0 takes the time")
	sequences = flag.Int("sequences", 100, "random sequences")
	length    = flag.Int("length", 20, "steps of a random sequence")
)

// TestRandomSequences takes both plugins through random sequences: a network drawn at
// random, and ADD, DEL, CHECK, GC and STATUS with requested addresses,
// ranges of the runtime, repeated and unknown containers, and broken input.
func TestRandomSequences(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", *seed)
	if testing.Short() {
		*sequences = min(*sequences, 30)
	}
	seen := make([]map[string]int, *sequences)
	t.Run("sequences", func(t *testing.T) {
		for i := range *sequences {
			seen[i] = map[string]int{}
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				randomSequence(t, rand.New(rand.NewPCG(*seed, uint64(i))), seen[i])
			})
		}
	})
	all := map[string]int{}
	for _, s := range seen {
		for title, n := range s {
			all[title] += n
		}
	}
	for title, n := range all {
		t.Logf("%5d answers: %s", n, title)
	}
}

// randomSequence counts the answers that were the same, by verb, and those that
// differ, by title.
func randomSequence(t *testing.T, r *rand.Rand, seen map[string]int) {
	n := drawNetwork(t, r)
	p := newPair(t, n.conf(nil))
	var done []string
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, after\n%s", *seed, strings.Join(done, "\n"))
		}
	}()
	for range *length {
		s := n.drawStep(p)
		title, follows := p.take(s)
		if title == "" {
			title = "the same, " + s.verb
		}
		seen[title]++
		if !follows {
			return
		}
		done = append(done, s.String())
	}
}
