package sites_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/budget/sites"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// model is some sites with pods. What a site shows others is a copy of its book, and what it knows of them a copy of
// what they showed at any time.
type model struct {
	random *rand.Rand
	group  sites.Group
	sites  []*site
	nonces int
	clock  time.Time
	wrong  mistake
	lost   bool // a pod was lost: from then on more pods may be away than the number says
}

type site struct {
	name    sites.Site
	pods    []bool // available
	share   ledger.Share
	since   time.Time
	shown   []sites.Report // the newest last
	known   map[sites.Site]sites.Report
	planned *ledger.Share // a write that is on its way, and the book that it was made from
	from    ledger.Share
	before  ledger.Share // the last write
	cut     bool
	nonce   string // of the last agreement that was open here
}

// mistake is a wrong variant of a site.
type mistake string

const (
	none          mistake = ""
	takesTwice    mistake = "what was sent is taken at each read"
	keepsNonce    mistake = "a site that closes keeps its nonce"
	noCompare     mistake = "a decision reads the share outside the compare-and-set"
	takesBefore   mistake = "a unit is taken before it is sent"
	countsNothing mistake = "a new agreement forgets what is away"
	naive         mistake = "a pod goes while the peers show enough pods"
	losesCounters mistake = "a share that was lost comes back with its nonce and without its counters"
	opensAlone    mistake = "the home opens before all have closed"
)

func newModel(random *rand.Rand, least bool, number int32, wrong mistake) *model {
	w := &model{random: random, clock: time.Unix(1000, 0), wrong: wrong}
	spec := sites.Spec{Members: []sites.Site{"a//db", "b//db", "c//db"}}
	if spec.MaxUnavailable = new(intstr.FromInt32(number)); least {
		spec.MinAvailable, spec.MaxUnavailable = new(intstr.FromInt32(6-number)), nil
	}
	peers := map[sites.Site]sites.Heard{}
	for _, name := range spec.Members {
		peers[name] = sites.Heard{Spec: spec, Expected: 2}
		w.sites = append(w.sites, &site{name: name, pods: []bool{true, true}, known: map[sites.Site]sites.Report{}})
	}
	groups, _ := sites.GroupsOf(spec.Members[0], spec, 2, peers)
	w.group = groups[0]
	return w
}

func (s *site) used() (n int32) {
	for _, available := range s.pods {
		if !available {
			n++
		}
	}
	return n
}

// away is how many pods are unavailable everywhere.
func (w *model) away() (n int32) {
	for _, s := range w.sites {
		n += s.used()
	}
	return n
}

// most is how many may be.
func (w *model) most() int32 {
	if w.group.Least {
		return 6 - w.group.Number
	}
	return w.group.Number
}

func (w *model) input(s *site) sites.Input {
	w.nonces++
	in := sites.Input{
		Self: s.name, Group: w.group, Share: s.share, Used: s.used(), Has: int32(len(s.pods)) - s.used(), Certain: true, Since: s.since,
		Peers: s.known, Fresh: fmt.Sprint("nonce ", w.nonces),
	}
	switch w.wrong { //nolint:exhaustive // the others are elsewhere
	case countsNothing:
		in.Used, in.Has = 0, 2
	case keepsNonce:
		if s.nonce != "" {
			in.Fresh = s.nonce
		}
	}
	return in
}

// plan begins a write. Another may come before it is stored.
func (w *model) plan(s *site) {
	before := s.share
	next := sites.Plan(w.input(s))
	switch w.wrong { //nolint:exhaustive // the others are elsewhere
	case takesTwice:
		for i, p := range next.Peers {
			if old, had := before.Peer(p.Site); had && before.Agreement == next.Agreement && p.Taken == old.Taken && w.random.IntN(8) == 0 {
				next.Peers[i].Taken = old.Taken + min(old.Taken, 1)
			}
		}
	case takesBefore:
		if next.Open && !s.since.IsZero() && sites.ReportOf(w.input(s), next).Short == 0 && len(next.Peers) > 0 && w.random.IntN(4) == 0 {
			next.Peers[0].Taken++
		}
	case opensAlone:
		if s.name == w.group.Members[0] && next.Agreement != "" {
			next.Open = true
		}
	}
	s.planned, s.from = &next, before
}

// store writes what was planned, if the book is as it was.
func (w *model) store(s *site) {
	if s.planned == nil {
		return
	}
	if same(s.from, s.share) {
		s.before = s.share
		s.share = *s.planned
		if s.share.Open {
			s.nonce = s.share.Nonce
		}
	}
	s.planned = nil
}

func same(a, b ledger.Share) bool {
	return a.Nonce == b.Nonce && a.Agreement == b.Agreement && a.Open == b.Open && slices.Equal(a.Peers, b.Peers) && a.Base == b.Base
}

// evict asks for a pod. It reports whether the pod went.
func (w *model) evict(s *site) bool {
	if !slices.Contains(s.pods, true) {
		return false
	}
	in := w.input(s)
	may := s.share.Open && sites.Spare(in, s.share) > 0
	if w.wrong == noCompare {
		may = s.before.Open && sites.Spare(in, s.before) > 0
	}
	if w.wrong == naive {
		seen := s.used()
		for _, other := range w.sites {
			if r, heard := s.known[other.name]; heard && other != s {
				seen += r.Share.Base // what it showed as used
			}
		}
		may = seen < w.most()
	}
	if !may {
		if s.since.IsZero() {
			w.clock = w.clock.Add(time.Second)
			s.since = w.clock.Add(time.Duration(w.random.IntN(600)-300) * time.Second) // clocks differ
		}
		return false
	}
	s.pods[slices.Index(s.pods, true)] = false
	s.since, s.planned = time.Time{}, nil
	return true
}

// step does one thing at random.
func (w *model) step() error {
	s := w.sites[w.random.IntN(len(w.sites))]
	other := w.sites[w.random.IntN(len(w.sites))]
	switch n := w.random.IntN(200); {
	case n < 40:
		w.plan(s)
	case n < 80:
		w.store(s)
	case n < 105:
		s.shown = append(s.shown, sites.ReportOf(w.input(s), s.share))
	case n < 155:
		w.read(s, other)
	case n < 190:
		if w.evict(s) && !w.lost && w.away() > w.most() {
			return fmt.Errorf("%d pods are away, and %d may be", w.away(), w.most())
		}
	case n < 197:
		if i := slices.Index(s.pods, false); i >= 0 {
			s.pods[i] = true
		}
	case n < 198:
		w.lose(s)
	case n < 199:
		s.cut = !s.cut
	case w.random.IntN(4) == 0:
		if i := slices.Index(s.pods, true); i >= 0 {
			s.pods[i], w.lost = false, true
		}
	}
	return w.check()
}

// read lets a site hear what another one showed, now or before.
func (w *model) read(s, other *site) {
	if len(other.shown) == 0 || other == s || s.cut {
		return
	}
	at := len(other.shown) - 1
	if w.random.IntN(4) == 0 {
		at = w.random.IntN(len(other.shown))
	}
	s.known[other.name] = other.shown[at]
}

// lose takes the share out of a book.
func (w *model) lose(s *site) {
	if s.share = (ledger.Share{}); w.wrong == losesCounters && s.planned != nil {
		s.share = ledger.Share{Nonce: s.from.Nonce, Agreement: s.from.Agreement, Open: s.from.Open, Base: s.from.Base, Least: s.from.Least, Peers: nonces(s.from.Peers)}
	}
}

func nonces(of []ledger.PeerUnits) (fresh []ledger.PeerUnits) {
	for _, p := range of {
		fresh = append(fresh, ledger.PeerUnits{Site: p.Site, Nonce: p.Nonce})
	}
	return fresh
}

// check adds up the shares of each agreement.
func (w *model) check() error {
	sums, open, closed := map[string]int32{}, map[string]int{}, map[string]bool{}
	for _, s := range w.sites {
		if s.share.Agreement == "" {
			continue
		}
		if sums[s.share.Agreement] += s.share.Number(); s.share.Open {
			open[s.share.Agreement]++
		}
		closed[s.share.Agreement] = closed[s.share.Agreement] || s.name == w.group.Members[0] && !s.share.Open
	}
	for of, sum := range sums {
		if open[of] == 0 || closed[of] {
			continue
		}
		if !w.group.Least && sum > w.group.Number {
			return fmt.Errorf("the shares of agreement %s add up to %d of %d", of, sum, w.group.Number)
		}
		if w.group.Least && open[of] == 3 && sum < w.group.Number {
			return fmt.Errorf("in agreement %s %d of %d pods must be available", of, sum, w.group.Number)
		}
	}
	return nil
}

// exchange lets a site plan and write, and all others read it.
func (w *model) exchange(s *site) {
	w.plan(s)
	w.store(s)
	s.shown = append(s.shown, sites.ReportOf(w.input(s), s.share))
	for _, other := range w.sites {
		if other != s {
			other.known[s.name] = s.shown[len(s.shown)-1]
		}
	}
}

// heal lets all sites hear one another and repairs their pods. Then each unit must be somewhere, and a site that waits
// must get one.
func (w *model) heal() error {
	waiting := w.sites[w.random.IntN(3)]
	for round := range 14 {
		for _, s := range w.sites {
			s.pods, s.cut = []bool{true, true}, false
			if s.since = (time.Time{}); s == waiting && round > 6 {
				s.since = w.clock
			}
			w.exchange(s)
		}
	}
	sum := int32(0)
	for _, s := range w.sites {
		if sum += s.share.Number(); !s.share.Open {
			return fmt.Errorf("site %s stays closed", s.name)
		}
	}
	if sum != w.group.Number {
		return fmt.Errorf("the shares add up to %d, and %d were to divide", sum, w.group.Number)
	}
	if sites.Spare(w.input(waiting), waiting.share) < 1 {
		return fmt.Errorf("site %s never gets a unit", waiting.name)
	}
	return nil
}

// walk makes one walk.
func walk(seed uint64, wrong mistake) error {
	random := rand.New(rand.NewPCG(seed, 27))
	w := newModel(random, seed%2 == 0, 1+int32(seed/2%2), wrong)
	for i := range 9 * random.IntN(2) { // half of the walks begin in an agreement
		w.exchange(w.sites[i%3])
	}
	for range 60 + random.IntN(120) {
		if err := w.step(); err != nil {
			return err
		}
	}
	return w.heal()
}

func TestSearch(t *testing.T) {
	for seed := range uint64(4_000) {
		if err := walk(seed, none); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func TestSearchFindsMistakes(t *testing.T) {
	for _, wrong := range []mistake{takesTwice, keepsNonce, noCompare, takesBefore, countsNothing, naive, losesCounters, opensAlone} {
		found := uint64(0)
		for found < 20_000 && walk(found, wrong) == nil {
			found++
		}
		if found == 20_000 {
			t.Errorf("not found: %s", wrong)
		}
		t.Logf("%s: seed %d: %v", wrong, found, walk(found, wrong))
	}
}
