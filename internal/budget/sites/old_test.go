package sites_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/budget/sites"
)

// heard is what the others show now.
func (w *model) heard(at int) map[sites.Site]sites.Heard {
	known := map[sites.Site]sites.Heard{}
	for i, other := range w.sites {
		if i != at {
			known[other.name] = w.shows(other)
		}
	}
	return known
}

// now is what a site would plan with.
func (w *model) now(s *site) sites.Input {
	groups, _ := w.groupsOf(s)
	return w.input(s, groups[0], s.share())
}

// turn lets a site hear the others, plan and write.
func (w *model) turn(at int) {
	w.sites[at].known = w.heard(at)
	w.plan(w.sites[at])
	w.store(w.sites[at])
}

// TestNoSiteOpensAFormerAgreement has a site that was about to open an agreement when its home left that for another one,
// and that then reads from a cache which shows the former state of both peers.
func TestNoSiteOpensAFormerAgreement(t *testing.T) {
	w := newModel(rand.New(rand.NewPCG(1, 1)), false, 1, none)
	home, site := w.sites[0], w.sites[1]
	site.since = w.clock
	for _, at := range []int{0, 1, 2, 1, 0, 0} {
		w.turn(at)
	}
	if sent := home.share().Peers[0].Sent; !home.share().Open || site.share().Open || sent != 1 {
		t.Fatalf("the home has sent %d units, want 1", sent)
	}
	former := w.heard(1)                             // and does not know it yet
	site.since, w.sites[2].shares = time.Time{}, nil // a book was lost
	for _, at := range []int{2, 0, 1, 2, 1, 0, 0} {
		w.turn(at)
	}
	if !home.share().Open || site.share().Open || sites.Spare(w.now(home), home.share()) != 1 {
		t.Fatalf("the home has no unit: %+v", home.share())
	}
	for range 3 {
		site.known = former
		w.plan(site)
		w.store(site)
	}
	if site.share().Open && sites.Spare(w.now(site), site.share()) > 0 {
		t.Errorf("two sites have the one unit: %+v", site.share())
	}
}

// TestASiteThatWasDeclaredGoneComesBack has the unit at a site that is cut off. The others divide all units without it,
// and one of them lets a pod go, as does the site that still runs. When all name it again, two pods are away, and the
// first unit that is free goes to the site that lacks one.
func TestASiteThatWasDeclaredGoneComesBack(t *testing.T) {
	for _, least := range []bool{false, true} {
		w := newModel(rand.New(rand.NewPCG(1, 1)), least, 1, none)
		w.idle = func() bool { return false }
		exchange := func() {
			for i := range 9 {
				w.exchange(w.sites[i%3])
				if err := w.check(); err != nil {
					t.Fatal(err)
				}
			}
		}
		home, site, gone := w.sites[0], w.sites[1], w.sites[2]
		exchange()
		gone.since = w.clock
		exchange()
		home.without, site.without, gone.cut, site.since = gone.name, gone.name, true, w.clock
		exchange()
		if !w.evict(site) || w.evict(home) || !w.evict(gone) {
			t.Fatalf("least %t: the site that is gone and one of the others may each let a pod go", least)
		}
		home.without, site.without, gone.cut, home.since = "", "", false, time.Time{}
		exchange()
		gone.pods[0] = true
		exchange()
		if w.evict(home) || w.evict(gone) {
			t.Errorf("least %t: a second pod goes", least)
		}
		site.pods[0] = true
		exchange()
		if !w.evict(home) && !w.evict(gone) {
			t.Errorf("least %t: no unit is found again", least)
		}
	}
}

// TestASiteWithoutPodsGivesItsUnits has a site that was scaled to zero while it had the unit.
func TestASiteWithoutPodsGivesItsUnits(t *testing.T) {
	w := newModel(rand.New(rand.NewPCG(1, 1)), false, 1, none)
	for _, at := range []int{0, 1, 2, 1, 2, 0, 0, 1} {
		w.turn(at)
	}
	w.sites[0].pods, w.sites[1].since = nil, w.clock
	w.turn(0)
	w.turn(1)
	if s := w.sites[1]; sites.Spare(w.now(s), s.share()) != 1 {
		t.Errorf("the site that waits has no unit: %+v, home %+v", s.share(), w.sites[0].share())
	}
}

// TestAPeerThatLacksEverything says that it lacks more pods than any cluster has.
func TestAPeerThatLacksEverything(t *testing.T) {
	w := newModel(rand.New(rand.NewPCG(1, 1)), false, math.MaxInt32, none)
	for _, at := range []int{0, 1, 2, 1, 2, 0, 0, 1} {
		w.turn(at)
	}
	w.sites[0].known = w.heard(0)
	in := w.now(w.sites[0])
	liar := in.Peers["b//db"]
	liar.Short = math.MaxInt32
	in.Peers["b//db"] = liar
	if sent := sites.Plan(in).Peers[0].Sent; sent == 0 || sent > 10_000 {
		t.Errorf("%d units are sent at once", sent)
	}
}
