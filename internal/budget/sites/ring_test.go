package sites_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/budget/sites"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// place is a position of a ring with one pod, which is to be evicted once.
type place struct {
	shares map[string]ledger.Share // by the ID of their group
	since  time.Time
	away   bool
	done   bool
	known  map[sites.Site]sites.Heard
}

type circle struct {
	random *rand.Rand
	places []*place
	nonces int
}

func newCircle(random *rand.Rand) *circle {
	c := &circle{random: random}
	for range 9 {
		c.places = append(c.places, &place{shares: map[string]ledger.Share{}, known: map[sites.Site]sites.Heard{}})
	}
	for i := range c.places {
		for j := range c.places {
			c.read(i, j)
		}
	}
	return c
}

func (c *circle) groups(i int) []sites.Group {
	groups, _ := sites.GroupsOf(position(i), neighbours(i), 1, c.places[i].known)
	return groups
}

func (c *circle) input(i int, g sites.Group) sites.Input {
	p := c.places[i]
	c.nonces++
	in := sites.Input{
		Self: position(i), Group: g, Share: p.shares[g.ID], Has: 1, Certain: true, Since: p.since,
		Peers: sites.ReportsOf(p.known, g.ID), Fresh: fmt.Sprint("nonce ", c.nonces),
	}
	if p.away {
		in.Used, in.Has = 1, 0
	}
	return in
}

// plan lets a position write its shares.
func (c *circle) plan(i int) {
	for _, g := range c.groups(i) {
		c.places[i].shares[g.ID] = sites.Plan(c.input(i, g))
	}
}

// read lets a position hear what another one has.
func (c *circle) read(i, of int) {
	if i == of {
		return
	}
	h := sites.Heard{Spec: neighbours(of), Expected: 1, Reports: map[string]sites.Report{}}
	for _, g := range c.groups(of) {
		h.Reports[g.ID] = sites.ReportOf(c.input(of, g), c.places[of].shares[g.ID])
	}
	c.places[i].known[position(of)] = h
}

// evict asks for the pod of a position. It goes with a unit of each group.
func (c *circle) evict(i int) error {
	p := c.places[i]
	for _, g := range c.groups(i) {
		if s := p.shares[g.ID]; !s.Open || sites.Spare(c.input(i, g), s) < 1 {
			if p.since.IsZero() {
				p.since = time.Unix(int64(1000+c.random.IntN(3)), 0)
			}
			return nil
		}
	}
	p.away, p.since = true, time.Time{}
	for d := 1; d <= 2; d++ {
		if c.places[(i+d)%9].away || c.places[(i+9-d)%9].away {
			return fmt.Errorf("position %d and one within %d are away", i, d)
		}
	}
	return nil
}

// step does one thing at random. Each pod is evicted until it went, and comes back later; a book is lost now and then.
func (c *circle) step(losses bool) error {
	i := c.random.IntN(9)
	p := c.places[i]
	switch n := c.random.IntN(100); {
	case n < 40:
		c.read(i, c.random.IntN(9))
	case n < 70:
		c.plan(i)
	case n < 90 && !p.away && !p.done:
		return c.evict(i)
	case n < 95 && p.away:
		p.away, p.done = false, true
	case n == 99 && losses && c.random.IntN(20) == 0:
		p.shares = map[string]ledger.Share{}
	}
	return nil
}

// TestARingUnderLoad evicts the pods of all positions at once. All go, and never two neighbours together.
func TestARingUnderLoad(t *testing.T) {
	for seed := range uint64(40) {
		c := newCircle(rand.New(rand.NewPCG(seed, 9)))
		left, steps := 9, 0
		for ; left > 0 && steps < 60_000; steps++ {
			if err := c.step(seed%2 == 0 && steps < 2_000); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, steps, err)
			}
			left = 0
			for _, p := range c.places {
				if !p.done {
					left++
				}
			}
		}
		if left > 0 {
			t.Fatalf("seed %d: %d pods never go", seed, left)
		}
	}
}
