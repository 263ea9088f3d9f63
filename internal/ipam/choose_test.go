package ipam_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/ipam"
)

// short returns the addresses 10.1.0.n.
func short(ns string) []netip.Addr {
	var all []netip.Addr
	for n := range strings.FieldsSeq(ns) {
		all = append(all, addr("10.1.0."+n))
	}
	return all
}

func TestChoose(t *testing.T) {
	set, err := ipam.Set{aRange("10.1.0.0/29")}.Complete() // 2 to 6
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		last, held, released, reached, routed string
		want                                  string
		early                                 bool
		passedOver                            string // reached, then routed
	}{
		"the next one":                                       {last: "3", want: "4"},
		"not one that was just released":                     {last: "3", released: "4 5", want: "6"},
		"not one that a neighbour answers for":               {last: "3", reached: "4", want: "5", passedOver: "4"},
		"not one with a route of its own":                    {last: "3", routed: "4 5", want: "6", passedOver: "4 5"},
		"the order begins again":                             {last: "5", released: "6", routed: "2", want: "3", passedOver: "2"},
		"the earliest released, where no other is free":      {last: "3", released: "5 2 6 3 4", want: "5", early: true},
		"an address that was released twice counts once":     {last: "3", held: "", released: "5 2 6 3 4 5", want: "2", early: true},
		"of those that are free":                             {last: "3", held: "5 2", released: "5 2 6 3 4", want: "6", early: true},
		"and have no route":                                  {last: "3", routed: "5", released: "5 2 6 3 4", want: "2", early: true, passedOver: "5"},
		"a neighbour that answers for it may be the earlier": {last: "3", reached: "5", released: "5 2 6 3 4", want: "5", early: true},
		"rather than one that was never handed out":          {last: "3", reached: "6", released: "5 2 3 4", want: "5", early: true, passedOver: "6"},
		"a neighbour answers for all":                        {last: "3", reached: "2 3 4 5 6", want: "4", passedOver: "5 6 2 3"},
		"all have routes":                                    {last: "3", routed: "2 3 4 5 6", passedOver: "4 5 6 2 3"},
		"all have routes or were just released":              {last: "3", routed: "2 3 4 5 6", released: "6", passedOver: "4 5 2 3 6"},
		"none is free":                                       {last: "3", held: "2 3 4 5 6", released: "4 2"},
		"released addresses of other sets are of no use":     {last: "3", held: "2 3 4 5 6", released: "9 1"},
		"the gateway is not asked for":                       {last: "6", routed: "1", want: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			view := held{}
			for _, a := range short(tc.held) {
				view[a] = true
			}
			c, err := set.Choose(ipam.ChooseInput{Last: short(tc.last)[0], Free: view, Released: short(tc.released), Use: func(a netip.Addr) ipam.Use {
				switch {
				case slices.Contains(short(tc.routed), a):
					return ipam.Routed
				case slices.Contains(short(tc.reached), a):
					return ipam.Reached
				}
				return ipam.Unused
			}})
			want := netip.Addr{}
			if tc.want != "" {
				want = short(tc.want)[0]
			}
			if errors.Is(err, ipam.ErrExhausted) != (tc.want == "") || err != nil && !errors.Is(err, ipam.ErrExhausted) {
				t.Fatal(err)
			}
			if c.Addr != want || c.Early != tc.early {
				t.Errorf("chose %s, early %t; want %s, %t", c.Addr, c.Early, want, tc.early)
			}
			if got := append(slices.Clone(c.Reached), c.Routed...); fmt.Sprint(got) != fmt.Sprint(short(tc.passedOver)) {
				t.Errorf("passed over %v, want %s", got, tc.passedOver)
			}
		})
	}
}

// TestChooseTakesTheBestFreeAddress draws sets, uses and releases.
func TestChooseTakesTheBestFreeAddress(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	set, err := ipam.Set{aRange("10.1.0.0/29"), aRange("10.2.0.0/29")}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		view, uses := held{}, map[netip.Addr]ipam.Use{}
		var released []netip.Addr
		best := map[string]bool{}
		for _, rng := range set {
			for a := rng.Start; a.Compare(rng.End) <= 0; a = a.Next() {
				view[a], uses[a] = r.IntN(3) > 0, ipam.Use(r.IntN(3))
				if r.IntN(2) == 0 {
					released = append(released, a)
				}
				if !view[a] && a != rng.Gateway {
					best[fmt.Sprint(slices.Contains(released, a), uses[a])] = true
				}
			}
		}
		r.Shuffle(len(released), func(i, j int) { released[i], released[j] = released[j], released[i] })
		c, err := set.Choose(ipam.ChooseInput{Last: addr("10.1.0.3"), Free: view, Released: released, Use: func(a netip.Addr) ipam.Use { return uses[a] }})
		is := fmt.Sprint(slices.Contains(released, c.Addr), uses[c.Addr])
		fresh, early := best[fmt.Sprint(false, ipam.Unused)], best[fmt.Sprint(true, ipam.Unused)] || best[fmt.Sprint(true, ipam.Reached)]
		reached := best[fmt.Sprint(false, ipam.Reached)]
		switch {
		case err != nil && (fresh || early || reached):
			t.Fatalf("seed %d: %v, but there are %v", seed, err, best)
		case err != nil:
			continue
		case view[c.Addr] || uses[c.Addr] == ipam.Routed:
			t.Fatalf("seed %d: chose %s, held %t, use %d", seed, c.Addr, view[c.Addr], uses[c.Addr])
		case fresh && is != fmt.Sprint(false, ipam.Unused), !fresh && early != c.Early, c.Early != slices.Contains(released, c.Addr):
			t.Fatalf("seed %d: chose %s (%s), but there are %v", seed, c.Addr, is, best)
		}
	}
}

// TestChooseAsksTheKernelABoundedNumberOfTimes lets a machine answer for all addresses, and has routes to all.
func TestChooseAsksTheKernelABoundedNumberOfTimes(t *testing.T) {
	set, err := ipam.Set{aRange("10.1.0.0/16")}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	for use, tc := range map[ipam.Use]struct {
		most int
		ends bool
	}{ipam.Reached: {most: 70}, ipam.Routed: {most: 1030, ends: true}} {
		asked := 0
		c, err := set.Choose(ipam.ChooseInput{Free: held{}, Use: func(netip.Addr) ipam.Use { asked++; return use }})
		if asked > tc.most || errors.Is(err, ipam.ErrExhausted) != tc.ends || c.Addr.IsValid() == tc.ends {
			t.Errorf("use %d: asked %d times, chose %s, %v", use, asked, c.Addr, err)
		}
	}
}
