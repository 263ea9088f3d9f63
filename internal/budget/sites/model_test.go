package sites_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/budget/sites"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// model is some sites with pods. What a site shows others is a copy of its book, and what it knows of them a copy of
// what they showed at any time. In half of the walks a PodDisruptionBudget counts, too, and in half a site is declared
// gone and named again. In some the sites have children, by which pods go while no guard answers.
type model struct {
	random *rand.Rand
	least  bool
	plain  bool // there is a PodDisruptionBudget of two pods, of which one may be away
	gone   bool // that pod is away
	sites  []*site
	groups map[string]sites.Group                 // all that were planned with, by their ID
	said   []said                                 // see specOf
	last   map[string]map[sites.Site]ledger.Share // what each site had last in each agreement
	nonces int
	clock  time.Time
	idle   func() bool
	wrong  mistake
	lost   bool       // a pod was lost: from then on more pods may be away than the number says
	child  bool       // the sites have children, as internal/budget/reconcile keeps them
	parts  bool       // sites are declared gone
	apart  sites.Site // the one that was, until all have agreed again; "" for none
}

type site struct {
	name    sites.Site
	number  int32          // of pods that may be away, by the spec of this site
	without sites.Site     // the spec does not name it; "" for none
	pods    []bool         // available
	shares  []ledger.Share // several in a ring
	since   time.Time
	shown   []sites.Heard // the newest last
	known   map[sites.Site]sites.Heard
	planned []ledger.Share // a write that is on its way, and the book that it was made from; nil for none
	from    []ledger.Share
	before  []ledger.Share // the last write
	cut     bool
	child   int32  // how many pods the child says that may be away
	counted int32  // by what Kubernetes has counted
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
	keepsShare    mistake = "a site keeps its share when its number changes"
	ignoresPlain  mistake = "the share of a PodDisruptionBudget is not taken from the number"
	shrinksLate   mistake = "a unit is sent before the child lets fewer pods go"
	uncounted     mistake = "a unit is sent before Kubernetes has counted by the child"
	expires       mistake = "what was sent is taken back after a time, if the peer has not shown that it took it"
)

const plain = sites.Site("d//pdb/db")

func newModel(random *rand.Rand, least bool, number int32, wrong mistake) *model {
	w := &model{random: random, idle: func() bool { return random.IntN(2) == 0 }, least: least, groups: map[string]sites.Group{}, last: map[string]map[sites.Site]ledger.Share{}, clock: time.Unix(1000, 0), wrong: wrong}
	for _, name := range []sites.Site{"a//db", "b//db", "c//db"} {
		w.sites = append(w.sites, &site{name: name, number: number, pods: []bool{true, true}, known: map[sites.Site]sites.Heard{}})
	}
	return w
}

// spec is what a budget says by which some of its own pods, and of all, may be away.
func (w *model) spec(away, of int32, members ...sites.Site) sites.Spec {
	if w.least {
		return sites.Spec{MinAvailable: new(intstr.FromInt32(of - away)), Members: members}
	}
	return sites.Spec{MaxUnavailable: new(intstr.FromInt32(away)), Members: members}
}

// said is a spec that a site may have.
type said struct {
	sites.Spec
	hash    string
	number  int32
	without sites.Site
}

// specOf is the spec of a site. With minAvailable, a person who takes a site out takes its pods from the number, too.
func (w *model) specOf(s *site) said {
	for _, known := range w.said {
		if known.number == s.number && known.without == s.without {
			return known
		}
	}
	members := slices.DeleteFunc([]sites.Site{"a//db", "b//db", "c//db", plain}, func(m sites.Site) bool {
		return m == s.without || m == plain && (!w.plain || w.wrong == ignoresPlain)
	})
	spec := w.spec(s.number, 2*int32(len(members)), members...)
	w.said = append(w.said, said{spec, spec.Hash(), s.number, s.without})
	return w.said[len(w.said)-1]
}

// groupsOf are the groups that a site sees. They are not definite while a peer was not read.
func (w *model) groupsOf(s *site) (groups []sites.Group, definite bool) {
	spec, peers := w.specOf(s).Spec, map[sites.Site]sites.Heard{plain: {Spec: w.spec(1, 2), Expected: 2}}
	for _, m := range spec.Members {
		if h, read := s.known[m]; !read && m != s.name && m != plain {
			return nil, false
		} else if read && !slices.Contains(h.Spec.Members, s.name) {
			peers[m] = sites.Heard{Spec: h.Spec, Problem: "does not name this budget"}
		} else if read {
			peers[m] = h
		}
	}
	groups, _ = sites.GroupsOf(s.name, spec, 2, peers)
	for _, g := range groups {
		w.groups[g.ID] = g
	}
	return groups, true
}

// share is that of the first group; the zero share for none.
func (s *site) share() (first ledger.Share) {
	if len(s.shares) > 0 {
		first = s.shares[0]
	}
	return first
}

func (s *site) used() (n int32) {
	for _, available := range s.pods {
		if !available {
			n++
		}
	}
	return n
}

// away is how many pods are unavailable, without those of a site that was declared gone.
func (w *model) away() (n int32) {
	for _, s := range w.sites {
		if s.name != w.apart {
			n += s.used()
		}
	}
	if w.gone {
		n++
	}
	return n
}

// most is how many may be, by the spec of any site, or by the one that a share is of.
func (w *model) most() (most int32) {
	for _, s := range w.sites {
		if s.name == w.apart {
			continue
		}
		most = max(most, s.number)
		for _, known := range w.said {
			if share := s.share(); share.Open && share.Spec == known.hash {
				most = max(most, known.number)
			}
		}
	}
	return most
}

func (w *model) input(s *site, g sites.Group, share ledger.Share) sites.Input {
	w.nonces++
	in := sites.Input{
		Self: s.name, Group: g, Share: share, Used: s.used(), Has: int32(len(s.pods)) - s.used(), Certain: true, Since: s.since,
		Peers: sites.ReportsOf(s.known, g.ID), Fresh: fmt.Sprint("nonce ", w.nonces), Idle: s.since.IsZero() && w.idle(),
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

// shows is what a site shows the others.
func (w *model) shows(s *site) sites.Heard {
	h := sites.Heard{Spec: w.specOf(s).Spec, Expected: int32(len(s.pods)), Healthy: int32(len(s.pods)) - s.used(), Reports: map[string]sites.Report{}}
	for _, share := range s.shares {
		h.Reports[share.Group] = sites.ReportOf(w.input(s, w.groups[share.Group], share), share)
	}
	return h
}

// plan begins a write. Another may come before it is stored.
func (w *model) plan(s *site) {
	groups, definite := w.groupsOf(s)
	if !definite {
		return
	}
	next := []ledger.Share{}
	for _, g := range groups {
		in := w.input(s, g, w.shareOf(s, g))
		share := sites.Plan(in)
		w.spoil(s, in, &share)
		next = append(next, share)
	}
	if len(groups) == 0 && w.wrong == keepsShare {
		next = s.shares
	}
	if before := may(s.shares); w.child && w.wrong != shrinksLate {
		after := min(may(next), before)
		if s.child = min(s.child, after); after < before && s.counted != s.child && w.wrong != uncounted {
			s.planned = nil // the next plan knows the pods that the child let go
			return
		}
	}
	s.planned, s.from = next, s.shares
}

// may is how many pods may be away by shares, and by their child.
func may(shares []ledger.Share) int32 {
	least := int32(math.MaxInt32)
	for _, share := range shares {
		if least = min(least, max(share.Number(), 0)); !share.Open {
			return 0
		}
	}
	return least * int32(min(len(shares), 1))
}

// follow brings the child of a site in line with its book, or lets Kubernetes count by the child.
func (w *model) follow(s *site) {
	if w.random.IntN(2) == 0 {
		s.counted = s.child
	} else if s.planned == nil || w.wrong == shrinksLate {
		s.child = may(s.shares)
	}
}

// shareOf is the share of a group, or one that begins.
func (w *model) shareOf(s *site, g sites.Group) ledger.Share {
	hash := w.specOf(s).hash
	for _, share := range s.shares {
		if share.Group == g.ID && share.Spec == hash {
			return share
		}
	}
	if share := s.share(); w.wrong == keepsShare && share.Open {
		share.Group, share.Spec = g.ID, hash
		return share
	}
	return ledger.Share{Spec: hash}
}

// spoil changes a share that was planned by the mistake of the walk.
func (w *model) spoil(s *site, in sites.Input, next *ledger.Share) {
	switch w.wrong { //nolint:exhaustive // the others are elsewhere
	case takesTwice, expires:
		for i, p := range next.Peers {
			old, had := in.Share.Peer(p.Site)
			if !had || in.Share.Agreement != next.Agreement || w.random.IntN(8) > 0 {
				continue
			}
			if took, _ := in.Peers[sites.Site(p.Site)].Share.Peer(string(s.name)); w.wrong == expires && took.Taken < old.Sent {
				next.Peers[i].Sent = took.Taken
			} else if w.wrong == takesTwice && p.Taken == old.Taken {
				next.Peers[i].Taken += min(old.Taken, 1)
			}
		}
	case takesBefore:
		if next.Open && !s.since.IsZero() && sites.ReportOf(in, *next).Short == 0 && len(next.Peers) > 0 && w.random.IntN(4) == 0 {
			next.Peers[0].Taken++
		}
	case opensAlone:
		next.Open = next.Open || s.name == in.Group.Members[0] && next.Agreement != ""
	}
}

// store writes what was planned, if the book is as it was.
func (w *model) store(s *site) {
	if s.planned != nil && slices.EqualFunc(s.from, s.shares, same) {
		s.before, s.shares = s.shares, s.planned
		for _, share := range s.shares {
			if share.Open {
				s.nonce = share.Nonce
			}
		}
	}
	s.planned = nil
}

func same(a, b ledger.Share) bool {
	return a.Nonce == b.Nonce && a.Agreement == b.Agreement && a.Group == b.Group && a.Spec == b.Spec && a.Open == b.Open && slices.Equal(a.Peers, b.Peers) && a.Base == b.Base
}

// spare reports whether one pod more may go by all shares.
func (w *model) spare(s *site, shares []ledger.Share) bool {
	return len(shares) > 0 && !slices.ContainsFunc(shares, func(of ledger.Share) bool {
		return !of.Open || sites.Spare(w.input(s, w.groups[of.Group], of), of) < 1
	})
}

// evict asks for a pod. It reports whether the pod went.
func (w *model) evict(s *site) bool {
	if !slices.Contains(s.pods, true) {
		return false
	}
	may := w.spare(s, s.shares) && (s.share().Spec == w.specOf(s).hash || w.random.IntN(2) == 0) // the cache of a guard may be old
	if w.wrong == noCompare {
		may = w.spare(s, s.before)
	}
	if w.wrong == naive {
		seen := s.used()
		for _, other := range w.sites {
			seen += s.known[other.name].Expected - s.known[other.name].Healthy
		}
		may = seen < s.number
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

// lose takes the shares out of a book.
func (w *model) lose(s *site) {
	if s.shares = nil; w.wrong == losesCounters && s.planned != nil {
		for _, share := range s.from {
			share.Peers = nonces(share.Peers)
			s.shares = append(s.shares, share)
		}
	}
}

func nonces(of []ledger.PeerUnits) (fresh []ledger.PeerUnits) {
	for _, p := range of {
		fresh = append(fresh, ledger.PeerUnits{Site: p.Site, Nonce: p.Nonce})
	}
	return fresh
}

// exchange lets a site plan and write, and all others read it.
func (w *model) exchange(s *site) {
	for range 2 { // the first plan may wait for the child
		w.plan(s)
		s.counted = s.child
	}
	w.store(s)
	s.child, s.counted = may(s.shares), may(s.shares)
	s.shown = append(s.shown, w.shows(s))
	for _, other := range w.sites {
		if other != s && !other.cut {
			other.known[s.name] = s.shown[len(s.shown)-1]
		}
	}
}
