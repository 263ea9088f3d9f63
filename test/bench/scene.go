package main

import (
	"context"
	"fmt"
	"os"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// scene is a state and what one process after the other does to it.
type scene struct {
	name   string // of the state
	used   int    // addresses in use, or reserved
	rounds int
	more   int // times that limpet-ipam does it in a round; host-local may be slow, and does it once
	// prepare makes the state.
	prepare func(ctx context.Context, c *contender, n int) error
	acts    []act
	// alone leaves host-local out, which has nothing like it.
	alone bool
}

// act is a verb that is timed.
type act struct {
	name, verb string
	pod        func(i int) string
	untimed    bool // only to get back to the state
}

var (
	start   = act{name: "process start (VERSION)", verb: "VERSION", pod: func(int) string { return "" }}
	add     = act{name: "ADD", verb: "ADD", pod: newPod}
	end     = act{name: "DEL", verb: "DEL", pod: newPod}
	unknown = act{name: "DEL of an unknown container", verb: "DEL", pod: func(i int) string { return fmt.Sprintf("unknown-%d", i) }}
	claim   = act{name: "ADD that claims a reservation", verb: "ADD", pod: reservedPod}
	unclaim = act{verb: "DEL", pod: reservedPod, untimed: true} // without the result of the ADD it undoes that
)

func newPod(i int) string      { return fmt.Sprintf("new-%d", i) }
func reservedPod(i int) string { return fmt.Sprintf("pod-%d", i*97) }

var scenes = []scene{
	{name: "0 in use", rounds: 400, more: 1, prepare: inUse, acts: []act{start, add, end, unknown}},
	{name: "1 000 in use", used: 1000, rounds: 150, more: 1, prepare: inUse, acts: []act{add, end, unknown}},
	{name: "10 000 in use", used: 10_000, rounds: 60, more: 2, prepare: inUse, acts: []act{add, end, unknown}},
	{name: fiftyThousand, used: 50_000, rounds: 25, more: 8, prepare: inUse, acts: []act{add, end, unknown}},
	{name: "10 000 in use, the only free one behind the cursor", used: 10_000, rounds: 40, more: 3, prepare: fullButOne, acts: []act{add, end}},
	{name: "50 000 in use, the only free one behind the cursor", used: 50_000, rounds: 15, more: 8, prepare: fullButOne, acts: []act{add, end}},
	{name: "50 000 reserved", used: 50_000, rounds: 200, more: 1, prepare: reserved, acts: []act{add, end, claim, unclaim}, alone: true},
}

const fiftyThousand = "50 000 in use"

func inUse(ctx context.Context, c *contender, n int) error { return c.fill(ctx, c.dir, n) }

func reserved(ctx context.Context, c *contender, n int) error { return fillReserved(ctx, c.dir, n) }

// fullButOne ends the range at the first address that is not in use. The first ADD finds
// that one, and every other has to come round to it.
func fullButOne(ctx context.Context, c *contender, n int) error {
	last := firstAddress
	for range n {
		last = last.Next()
	}
	c.ranges = fmt.Sprintf(`{"subnet":"10.1.0.0/16","rangeEnd":%q}`, last)
	return c.fill(ctx, c.dir, n)
}

// times are the samples of a contender by act.
type times map[string]measure.Sample

// pair returns ADD and DEL together.
func (t times) pair() measure.Sample {
	var both measure.Sample
	for i, took := range t[add.name] {
		both = append(both, took+t[end.name][i])
	}
	return both
}

// played is what came of a scene. The empty ones are limpet-ipam's on an empty state, in
// the same minutes.
type played struct {
	scene
	theirs, ours, empty times
}

// part is a contender in a scene.
type part struct {
	who   *contender
	used  int
	to    times
	turns int // in a round
}

// run plays in turns, so that all see the same machine.
func (s scene) run(ctx context.Context, b bench) (played, error) {
	p := played{scene: s, theirs: times{}, ours: times{}, empty: times{}}
	dir, err := os.MkdirTemp(b.dir, "scene-")
	if err != nil {
		return p, fmt.Errorf("measure: %w", err)
	}
	defer b.remove(dir)
	parts := []part{
		{hostLocal(b.binaries, dir), s.used, p.theirs, 1},
		{limpet(b.binaries, dir), s.used, p.ours, s.more},
		{limpet(b.binaries, dir+"/empty"), 0, p.empty, s.more},
	}
	if s.alone {
		parts = parts[1:]
	}
	for _, part := range parts {
		if err := s.prepare(ctx, part.who, part.used); err != nil {
			return p, err
		}
		if err := s.play(ctx, part.who, 0, times{}); err != nil { // the first makes files and fills caches
			return p, err
		}
	}
	for i := range s.rounds {
		b.progress(s.name, i, s.rounds)
		if err := s.round(ctx, parts, i); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (s scene) round(ctx context.Context, parts []part, i int) error {
	for j := range s.more {
		for _, part := range parts {
			if j >= part.turns {
				continue
			}
			if err := s.play(ctx, part.who, 1+i*s.more+j, part.to); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s scene) play(ctx context.Context, who *contender, i int, to times) error {
	for _, a := range s.acts {
		took, err := who.do(ctx, a.verb, a.pod(i))
		if err != nil {
			return err
		}
		if !a.untimed {
			to[a.name] = append(to[a.name], took)
		}
	}
	return nil
}
