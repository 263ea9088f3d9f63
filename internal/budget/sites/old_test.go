package sites_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/budget/sites"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// heard is what the others show now.
func (w *model) heard(at int) map[sites.Site]sites.Report {
	known := map[sites.Site]sites.Report{}
	for i, other := range w.sites {
		if i != at {
			known[other.name] = sites.ReportOf(w.input(other), other.share)
		}
	}
	return known
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
	if sent := home.share.Peers[0].Sent; !home.share.Open || site.share.Open || sent != 1 {
		t.Fatalf("the home has sent %d units, want 1", sent)
	}
	former := w.heard(1)                                       // and does not know it yet
	site.since, w.sites[2].share = time.Time{}, ledger.Share{} // a book was lost
	for _, at := range []int{2, 0, 1, 2, 1, 0, 0} {
		w.turn(at)
	}
	if !home.share.Open || site.share.Open || sites.Spare(w.input(home), home.share) != 1 {
		t.Fatalf("the home has no unit: %+v", home.share)
	}
	for range 3 {
		site.known = former
		w.plan(site)
		w.store(site)
	}
	if site.share.Open && sites.Spare(w.input(site), site.share) > 0 {
		t.Errorf("two sites have the one unit: %+v", site.share)
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
	if s := w.sites[1]; sites.Spare(w.input(s), s.share) != 1 {
		t.Errorf("the site that waits has no unit: %+v, home %+v", s.share, w.sites[0].share)
	}
}

// TestAPeerThatLacksEverything says that it lacks more pods than any cluster has.
func TestAPeerThatLacksEverything(t *testing.T) {
	w := newModel(rand.New(rand.NewPCG(1, 1)), false, math.MaxInt32, none)
	for _, at := range []int{0, 1, 2, 1, 2, 0, 0, 1} {
		w.turn(at)
	}
	in := w.input(w.sites[0])
	in.Peers = w.heard(0)
	liar := in.Peers["b//db"]
	liar.Short = math.MaxInt32
	in.Peers["b//db"] = liar
	if sent := sites.Plan(in).Peers[0].Sent; sent == 0 || sent > 10_000 {
		t.Errorf("%d units are sent at once", sent)
	}
}
