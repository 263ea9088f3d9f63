package sites_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/budget/sites"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// position is a place in a ring that goes through three clusters.
func position(i int) sites.Site {
	i = (i + 9) % 9
	return sites.SiteOf([]string{"red", "green", "blue"}[i%3], fmt.Sprintf("%d0", i), "ring")
}

// neighbours is the budget of a position: it names the two sites before and behind it.
func neighbours(i int) sites.Spec {
	s := sites.Spec{MinAvailable: new(intstr.FromInt32(4))}
	for at := i - 2; at <= i+2; at++ {
		s.Members = append(s.Members, position(at))
	}
	slices.Sort(s.Members)
	return s
}

// TestARingOverClusters has nine positions of one pod, each with its four neighbours, of which four of five must be
// available: any two within distance 2 exclude each other, and three may be away at once.
func TestARingOverClusters(t *testing.T) {
	all := map[sites.Site]sites.Heard{}
	for i := range 9 {
		all[position(i)] = sites.Heard{Spec: neighbours(i), Expected: 1}
	}
	in := map[string][]int{} // positions by group
	for i := range 9 {
		groups, problem := sites.GroupsOf(position(i), neighbours(i), 1, all)
		if problem != "" || len(groups) != 4 {
			t.Fatalf("position %d: groups %v, problem %q; want one with each neighbour", i, groups, problem)
		}
		for _, g := range groups {
			if in[g.ID] = append(in[g.ID], i); g.Least || g.Number != 1 {
				t.Errorf("position %d: %+v", i, g)
			}
		}
	}
	exclude := map[[2]int]bool{}
	for id, both := range in {
		if len(both) != 2 {
			t.Fatalf("group %s has positions %v", id, both)
		}
		exclude[[2]int(both)] = true
	}
	most := 0
	for set := range 1 << 9 {
		var away []int
		for i := range 9 {
			if set>>i&1 == 1 {
				away = append(away, i)
			}
		}
		if !slices.ContainsFunc(pairs(away), func(p [2]int) bool { return exclude[p] }) {
			most = max(most, len(away))
		}
	}
	if most != 3 || len(exclude) != 18 || !exclude[[2]int{0, 8}] || !exclude[[2]int{3, 5}] || exclude[[2]int{0, 3}] {
		t.Errorf("%d may be away at once, and %d pairs exclude each other; want 3 and 18", most, len(exclude))
	}
}

func pairs(of []int) (all [][2]int) {
	for i, a := range of {
		for _, b := range of[i+1:] {
			all = append(all, [2]int{a, b})
		}
	}
	return all
}

func TestGroups(t *testing.T) {
	one, two, most := new(intstr.FromInt32(1)), new(intstr.FromInt32(2)), new(intstr.FromInt32(math.MaxInt32))
	both := []sites.Site{"/a/db", "/b/db"}
	three, withPDB := []sites.Site{"/a/db", "/b/db", "/c/db"}, []sites.Site{"/a/db", "/b/db", "/c/pdb/db"}
	for _, tc := range []struct {
		name    string
		own     sites.Spec
		peers   map[sites.Site]sites.Heard
		members []int // of each group
		number  int32 // of the only one; 0 for any
		problem string
	}{
		{name: "all name the same", own: sites.Spec{MaxUnavailable: two, Members: three}, members: []int{3}, peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: two, Members: three}}, "/c/db": {Spec: sites.Spec{MaxUnavailable: two, Members: three}},
		}},
		{name: "a peer was not read", own: sites.Spec{MaxUnavailable: one, Members: both}, problem: "/b/db was not found", peers: map[sites.Site]sites.Heard{
			"/b/db": {Problem: "was not found"},
		}},
		{name: "another number", own: sites.Spec{MaxUnavailable: one, Members: both}, problem: "another number", peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: two, Members: both}},
		}},
		{name: "another field", own: sites.Spec{MaxUnavailable: one, Members: both}, problem: "another number", peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MinAvailable: one, Members: both}},
		}},
		{name: "other peers, and two may be away", own: sites.Spec{MaxUnavailable: two, Members: three}, problem: "2 pods may be away", peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: two, Members: both}}, "/c/db": {Spec: sites.Spec{MaxUnavailable: two, Members: three}},
		}},
		{name: "other peers, and one may be away", own: sites.Spec{MaxUnavailable: one, Members: three}, members: []int{2, 2}, peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: one, Members: both}}, "/c/db": {Spec: sites.Spec{MaxUnavailable: one, Members: three}},
		}},
		{name: "a PodDisruptionBudget", own: sites.Spec{MaxUnavailable: two, Members: withPDB}, members: []int{2}, number: 1, peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: two, Members: withPDB}}, "/c/pdb/db": {Spec: sites.Spec{MaxUnavailable: one}},
		}},
		{name: "a PodDisruptionBudget alone", own: sites.Spec{MinAvailable: two, Members: []sites.Site{"/a/db", "/c/pdb/db"}}, members: []int{1}, number: 1, peers: map[sites.Site]sites.Heard{
			"/c/pdb/db": {Spec: sites.Spec{MinAvailable: one}},
		}},
		{name: "a PodDisruptionBudget lets more go than all", own: sites.Spec{MaxUnavailable: one, Members: withPDB}, problem: "let 2 pods go, and all sites together may let 1", peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: one, Members: withPDB}}, "/c/pdb/db": {Spec: sites.Spec{MaxUnavailable: two}},
		}},
		{name: "two PodDisruptionBudgets whose sum is no int32", own: sites.Spec{MaxUnavailable: one, Members: []sites.Site{"/a/db", "/c/pdb/x", "/c/pdb/y"}}, problem: "let 4294967294 pods go", peers: map[sites.Site]sites.Heard{
			"/c/pdb/x": {Spec: sites.Spec{MaxUnavailable: most}}, "/c/pdb/y": {Spec: sites.Spec{MaxUnavailable: most}},
		}},
		{name: "a PodDisruptionBudget with the other field", own: sites.Spec{MaxUnavailable: two, Members: withPDB}, problem: "/c/pdb/db has no maxUnavailable that is a number", peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: two, Members: withPDB}}, "/c/pdb/db": {Spec: sites.Spec{MinAvailable: one}},
		}},
		{name: "a PodDisruptionBudget with a percentage", own: sites.Spec{MaxUnavailable: two, Members: withPDB}, problem: "that is a number", peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: two, Members: withPDB}}, "/c/pdb/db": {Spec: sites.Spec{MaxUnavailable: new(intstr.FromString("10%"))}},
		}},
		{name: "a PodDisruptionBudget in a ring", own: sites.Spec{MaxUnavailable: one, Members: withPDB}, problem: "no neighbour in a ring", peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: one, Members: both}}, "/c/pdb/db": {Spec: sites.Spec{MaxUnavailable: one}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			groups, problem := sites.GroupsOf("/a/db", tc.own, 1, tc.peers)
			var members []int
			for _, g := range groups {
				members = append(members, len(g.Members))
			}
			if tc.number > 0 && groups[0].Number != tc.number {
				t.Errorf("%d units to divide, want %d", groups[0].Number, tc.number)
			}
			if !slices.Equal(members, tc.members) || (problem == "") != (tc.problem == "") || !strings.Contains(problem, tc.problem) {
				t.Errorf("groups of %v members, problem %q; want %v, %q", members, problem, tc.members, tc.problem)
			}
		})
	}
}

// TestTightenedBudgetsGiveTheirUnitsUp has a PodDisruptionBudget that let three pods go, and lets one go now. The others get
// what it has given up when two have come back, or two pods more than all may be away would go.
func TestTightenedBudgetsGiveTheirUnitsUp(t *testing.T) {
	spec := sites.Spec{MaxUnavailable: new(intstr.FromInt32(3)), Members: []sites.Site{"/a/db", "/c/pdb/db"}}
	for unsettled, open := range map[string]bool{"": true, "lacks 2 pods beyond its share": false, "was changed and is not counted again yet": false} {
		groups, _ := sites.GroupsOf("/a/db", spec, 3, map[sites.Site]sites.Heard{
			"/c/pdb/db": {Spec: sites.Spec{MaxUnavailable: new(intstr.FromInt32(1))}, Unsettled: unsettled},
		})
		share := sites.Plan(sites.Input{Self: "/a/db", Group: groups[0], Certain: true, Fresh: "n"})
		if share.Open != open || open && share.Number() != 2 {
			t.Errorf("%q: open %t with %d units", unsettled, share.Open, share.Number())
		}
	}
}

// TestIdleUnitsSpread has all units at the home, and no request anywhere. One unit stays where it was used last.
func TestIdleUnitsSpread(t *testing.T) {
	for _, tc := range []struct {
		least  bool
		number int32
		busy   bool
		pods   []int // of each site
		want   []int32
	}{
		{number: 3, pods: []int{2, 2, 2}, want: []int32{1, 1, 1}},
		{number: 4, pods: []int{2, 2, 2}, want: []int32{2, 1, 1}},
		{number: 1, pods: []int{2, 2, 2}, want: []int32{1, 0, 0}},
		{number: 3, pods: []int{2, 2, 0}, want: []int32{2, 1, 0}}, // a site without pods needs none
		{number: 1, pods: []int{0, 2, 2}, want: []int32{0, 1, 0}},
		{number: 9, pods: []int{9, 2, 2}, want: []int32{5, 2, 2}},
		{number: 3000, pods: []int{2000, 2000, 2000}, want: []int32{1000, 1000, 1000}}, // half of the difference at once
		{number: 3, busy: true, pods: []int{2, 2, 2}, want: []int32{3, 0, 0}},
		{least: true, number: 3, pods: []int{2, 2, 2}, want: []int32{1, 1, 1}}, // of six pods
	} {
		w := newModel(rand.New(rand.NewPCG(1, 1)), tc.least, tc.number, none)
		w.idle = func() bool { return !tc.busy }
		for i, n := range tc.pods {
			w.sites[i].pods = slices.Repeat([]bool{true}, n)
		}
		for i := range 60 {
			w.exchange(w.sites[i%3])
		}
		var got []int32
		for _, s := range w.sites {
			got = append(got, sites.Spare(w.now(s), s.share()))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v: spare %d", tc, got)
		}
	}
}

// TestASiteSpreadsNoUnitInUse has a pod that went with the only unit and stays away, and a site that lost both of its
// pods: when they are back, none of them may go.
func TestASiteSpreadsNoUnitInUse(t *testing.T) {
	for _, least := range []bool{false, true} {
		w, idle := newModel(rand.New(rand.NewPCG(1, 1)), least, 1, none), false
		w.idle = func() bool { return idle }
		exchange := func() {
			for i := range 9 {
				w.exchange(w.sites[i%3])
			}
		}
		exchange()
		if !w.evict(w.sites[0]) {
			t.Fatal("the home has no unit")
		}
		idle, w.sites[1].pods = true, []bool{false, false}
		exchange()
		if w.sites[1].pods = []bool{true, true}; w.evict(w.sites[1]) {
			t.Errorf("least %t: %d pods are away by requests, and 1 may be", least, w.away())
		}
	}
}

// TestASurplusPodIsNoUnit has a peer with more pods than its size, as in a rollout: it has the units of its share.
func TestASurplusPodIsNoUnit(t *testing.T) {
	heard := map[sites.Site]sites.Heard{"b//db": {Expected: 2, Healthy: 5, Reports: map[string]sites.Report{"g": {Share: ledger.Share{Base: 1}}}}}
	if r := sites.ReportsOf(heard, "g")["b//db"]; r.Spare != 1 || r.Has != 5 {
		t.Errorf("%+v, want one unit and five pods", r)
	}
}

// TestWhoGetsAUnit has a home with four units, and says what its peers show and how many units it sends each.
func TestWhoGetsAUnit(t *testing.T) {
	w := newModel(rand.New(rand.NewPCG(1, 1)), false, 4, none)
	w.idle = func() bool { return false }
	for i := range 9 {
		w.exchange(w.sites[i%3])
	}
	early, late := time.Unix(10, 0), time.Unix(20, 0)
	for name, tc := range map[string]struct {
		b, c      sites.Report
		used      int32
		idle      bool
		uncertain bool
		sent      [2]int64
	}{
		"no site asks":                       {},
		"one unit, for who waits longest":    {b: sites.Report{Since: late}, c: sites.Report{Since: early}, used: 3, sent: [2]int64{0, 1}},
		"one unit, for who lacks pods":       {b: sites.Report{Since: early}, c: sites.Report{Short: 1}, used: 3, sent: [2]int64{0, 1}},
		"a pod may be gone that is counted":  {b: sites.Report{Since: early}, uncertain: true},
		"idle":                               {idle: true, b: sites.Report{Spare: 1}, sent: [2]int64{0, 2}},
		"idle, and a pod may be gone":        {idle: true, uncertain: true},
		"idle, and a unit for each is asked": {idle: true, b: sites.Report{Since: early}, c: sites.Report{Since: late}, sent: [2]int64{1, 1}},
	} {
		in := w.now(w.sites[0])
		in.Used, in.Idle, in.Certain = tc.used, tc.idle, !tc.uncertain
		for site, r := range map[sites.Site]sites.Report{"b//db": tc.b, "c//db": tc.c} {
			r.Share, r.Has = in.Peers[site].Share, 2
			in.Peers[site] = r
		}
		if s := sites.Plan(in); s.Peers[0].Sent != tc.sent[0] || s.Peers[1].Sent != tc.sent[1] {
			t.Errorf("%s: %d and %d units are sent, want %d", name, s.Peers[0].Sent, s.Peers[1].Sent, tc.sent)
		} else if in.Share = s; tc.idle && sites.Plan(in).Peers[1].Sent != tc.sent[1] {
			t.Errorf("%s: a second unit is sent before the first is taken", name)
		}
	}
}

// TestBudgetsOfTheSamePodsGiveAlike has two budgets over the same pods of one namespace, whose names come in another order. Two
// requests of one second get the units of both budgets at the same pod.
func TestBudgetsOfTheSamePodsGiveAlike(t *testing.T) {
	for _, first := range []sites.Site{"b/shop/x", "b/shop/y"} {
		in := sites.Input{Self: "a/shop/db", Certain: true, Peers: map[sites.Site]sites.Report{}}
		in.Group = sites.Group{ID: "g", Members: []sites.Site{"a/shop/db", "b/shop/x", "b/shop/y"}, Number: 1}
		in.Share = ledger.Share{Group: "g", Nonce: "n", Agreement: "z", Open: true, Base: 1}
		for _, site := range in.Group.Members[1:] {
			r := sites.Report{Share: ledger.Share{Group: "g", Nonce: string(site), Agreement: "z", Open: true}, Since: time.Unix(10, 0), Pod: "db-1"}
			if site == first {
				r.Pod = "db-0"
			}
			in.Peers[site] = r
			in.Share.Peers = append(in.Share.Peers, ledger.PeerUnits{Site: string(site), Nonce: string(site)})
		}
		if to, _ := sites.Plan(in).Peer(string(first)); to.Sent != 1 {
			t.Errorf("site %s, whose pod is the first by name, gets %d units", first, to.Sent)
		}
	}
}

// TestAShareThatAgreesHasRoom fills a book with shares that begin. Each has room when its peers have answered.
func TestAShareThatAgreesHasRoom(t *testing.T) {
	in := sites.Input{Self: "blue/shop/db", Certain: true, Fresh: strings.Repeat("n", 21)}
	in.Group = sites.Group{ID: "g", Members: []sites.Site{"blue/shop/db", "green/shop/db", "red/shop/db"}, Number: 1}
	begun := sites.Plan(in)
	in.Share, in.Peers = begun, map[sites.Site]sites.Report{"green/shop/db": {Share: ledger.Share{Nonce: "m"}}, "red/shop/db": {Share: ledger.Share{Nonce: "o"}}}
	agrees := sites.Plan(in)
	if agrees.Agreement == "" || begun.Agreement != "" {
		t.Fatalf("%+v, and then %+v", begun, agrees)
	}
	var book ledger.Book
	for {
		begun.Budget = fmt.Sprint(len(book.Shares))
		next, fits := ledger.PutShares(book, begun.Budget, []ledger.Share{begun})
		if !fits {
			break
		}
		book = next
	}
	t.Logf("a book has room for %d budgets of three sites", len(book.Shares))
	for _, s := range book.Shares {
		var fits bool
		agrees.Budget = s.Budget
		if book, fits = ledger.PutShares(book, s.Budget, []ledger.Share{agrees}); !fits {
			t.Fatalf("share %s has no room when its peers answer", s.Budget)
		}
	}
}
