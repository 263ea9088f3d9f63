package plugin_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

var kills = flag.Int("kills", 60, "processes that the crash test kills")

// TestManyAtOnce starts as many processes as a node has pods; each must get
// addresses of its own.
func TestManyAtOnce(t *testing.T) {
	const n = 100
	dir := t.TempDir()
	all := func(verb string) []answer {
		answers := make([]answer, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				answers[i] = call{verb: verb, container: fmt.Sprintf("c%d", i), netns: "/some/where", args: pod(fmt.Sprintf("web-%d", i), "u"), conf: conf(dir, "1.1.0")}.run(t)
			})
		}
		wg.Wait()
		return answers
	}
	seen := map[netip.Addr]int{}
	for i, a := range all("ADD") {
		if a.exit != 0 || len(a.IPs) != 2 {
			t.Fatalf("ADD %d: %s%s", i, a.stdout, a.stderr)
		}
		for _, addr := range a.addrs() {
			if other, taken := seen[addr]; taken {
				t.Errorf("%s went to %d and to %d", addr, other, i)
			}
			seen[addr] = i
		}
	}
	if attached, _ := read(t, dir); len(attached) != n {
		t.Errorf("%d attached, want %d", len(attached), n)
	}
	for i, a := range all("DEL") {
		if a.exit != 0 {
			t.Errorf("DEL %d: %s%s", i, a.stdout, a.stderr)
		}
	}
	if attached, _ := read(t, dir); len(attached) != 0 {
		t.Errorf("%d attached after DEL", len(attached))
	}
}

// TestKilledAtAnyInstant is the crash part of rule 5: what a killed process was
// about is done in whole or not at all, and what was acknowledged stays.
func TestKilledAtAnyInstant(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	const together = 4
	attached := map[string]reservation.Attachment{}
	killed := 0
	for round := 0; killed < *kills && round < 50**kills; round++ {
		calls := make([]call, together)
		acked := make([]bool, together)
		var wg sync.WaitGroup
		for i := range calls {
			name := fmt.Sprintf("%d", r.IntN(40)*together+i) // nobody else's in this round
			c := call{verb: "ADD", container: "c" + name, args: pod("web-"+name, "u"), conf: conf(dir, "1.1.0")}
			if a, there := attached[c.container]; there {
				c.verb, c.conf = "DEL", withPrevious(conf(dir, "1.1.0"), a.Addresses)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(12_000))*time.Microsecond)
			defer cancel()
			c.netns, c.interrupted, calls[i] = "/some/where", ctx, c
			wg.Go(func() { acked[i] = c.run(t).exit == 0 })
		}
		wg.Wait()
		now, reserved := read(t, dir)
		for i, c := range calls {
			a, there := now[c.container]
			if !acked[i] {
				killed++
			} else if there != (c.verb == "ADD") {
				t.Errorf("seed %d: %s of %s was acknowledged, attached = %t", seed, c.verb, c.container, there)
			}
			_, kept := reserved["web-"+c.container[1:]]
			if there && (len(a.Addresses) != 2 || kept) {
				t.Errorf("seed %d: %s of %s left half: %v, reserved = %t", seed, c.verb, c.container, a.Addresses, kept)
			}
			delete(attached, c.container)
			if there {
				attached[c.container] = a
			}
		}
		if len(now) != len(attached) {
			t.Errorf("seed %d: %d attached, want %d", seed, len(now), len(attached))
		}
		if t.Failed() {
			return
		}
	}
	if killed < *kills {
		t.Errorf("killed %d, want %d: the machine is too fast for this test", killed, *kills)
	}
}
