package budget_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/sites"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// TestASharesNumberDecides plans an eviction of one of three pods under a budget that a peer has, too.
func TestASharesNumberDecides(t *testing.T) {
	spec := sites.Spec{MaxUnavailable: limit("1"), Members: []sites.Site{"/a/web", "/b/web"}}
	share := func(change func(*ledger.Share)) ledger.Share {
		s := ledger.Share{
			Budget: "web", UID: "b-web", Spec: spec.Hash(), Group: "g", Nonce: "n", Agreement: "x", Open: true, Base: 1,
			Peers: []ledger.PeerUnits{{Site: "/b/web", Nonce: "m"}},
		}
		change(&s)
		return s
	}
	agreed := sites.Report{Share: ledger.Share{Group: "g", Agreement: "x", Nonce: "m", Open: true, Peers: []ledger.PeerUnits{{Site: "/a/web", Sent: 1}}}}
	short := agreed
	short.Short = 2
	peer := func(h sites.Heard) map[sites.Site]sites.Heard { return map[sites.Site]sites.Heard{"/b/web": h} }
	says := func(r sites.Report) map[sites.Site]sites.Heard {
		return peer(sites.Heard{Spec: spec, Reports: map[string]sites.Report{"g": r}})
	}
	as := func(*ledger.Share) {}
	for _, tc := range []struct {
		name    string
		shares  []ledger.Share
		lenient bool
		peers   map[sites.Site]sites.Heard
		refused string // "" for none
		reason  budget.Reason
	}{
		{name: "a unit is here", shares: []ledger.Share{share(as)}, peers: says(agreed)},
		{
			name: "a unit was sent", shares: []ledger.Share{share(func(s *ledger.Share) { s.Peers[0].Sent = 1 })}, peers: says(agreed),
			refused: "needs 3 of 3 pods available (its share of maxUnavailable 1 in 2 sites) and has 3. Pod web-0 may go when a peer has sent a unit", reason: budget.ReasonExhausted,
		},
		{name: "a unit came back", shares: []ledger.Share{share(func(s *ledger.Share) { s.Peers[0].Sent, s.Peers[0].Taken = 1, 1 })}, peers: says(agreed)},
		{name: "no share", refused: "its peers have not agreed on it yet. Pod web-0 may go when all peers answer", reason: budget.ReasonPeers},
		{name: "a share of a former spec", shares: []ledger.Share{share(func(s *ledger.Share) { s.Spec = "former" })}, peers: says(agreed), refused: "have not agreed", reason: budget.ReasonPeers},
		{name: "a share of a former budget", shares: []ledger.Share{share(func(s *ledger.Share) { s.UID = "former" })}, peers: says(agreed), refused: "have not agreed", reason: budget.ReasonPeers},
		{name: "a closed share", shares: []ledger.Share{share(func(s *ledger.Share) { s.Open = false })}, peers: says(agreed), refused: "have not agreed", reason: budget.ReasonPeers},
		{
			name: "a silent peer", shares: []ledger.Share{share(as)}, peers: peer(sites.Heard{Problem: "cannot be read: connection refused"}),
			refused: "peer /b/web cannot be read: connection refused", reason: budget.ReasonPeers,
		},
		{name: "a silent peer, and units are reserved", shares: []ledger.Share{share(as)}, lenient: true, peers: peer(sites.Heard{Problem: "cannot be read"})},
		{
			name: "a peer of another agreement", shares: []ledger.Share{share(as)}, peers: says(sites.Report{Share: ledger.Share{Group: "g", Agreement: "y"}}),
			refused: "peer /b/web has not agreed on it yet", reason: budget.ReasonPeers,
		},
		{name: "a peer that lacks pods", shares: []ledger.Share{share(as)}, peers: says(short), refused: "peer /b/web lacks 2 pods beyond its share", reason: budget.ReasonPeers},
		{name: "a peer that was not asked", shares: []ledger.Share{share(as)}, refused: "peer /b/web was not asked", reason: budget.ReasonPeers},
		{
			name: "one of two shares", shares: []ledger.Share{share(as), share(func(s *ledger.Share) { s.Group, s.Peers[0].Sent = "h", 1 })}, lenient: true,
			refused: "PodUnavailableBudget web, group with /b/web needs 3 of 3", reason: budget.ReasonExhausted,
		},
		{name: "how many must be available", shares: []ledger.Share{share(func(s *ledger.Share) { s.Least, s.Base = true, 3 })}, lenient: true, refused: "needs 3 of 3", reason: budget.ReasonExhausted},
		{name: "less must be available", shares: []ledger.Share{share(func(s *ledger.Share) { s.Least, s.Base = true, 2 })}, lenient: true},
		{
			name: "nothing must be available, and a peer lacks pods", shares: []ledger.Share{share(func(s *ledger.Share) { s.Least, s.Base = true, 0 })}, peers: says(short),
			refused: "lacks 2 pods", reason: budget.ReasonPeers,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := most("1", pods(3))
			b.Sites = &budget.Sites{Self: "/a/web", Spec: spec, Strict: !tc.lenient, Peers: tc.peers}
			got := budget.Plan(budget.Input{Now: now, Namespace: "a", Vector: budget.Evict, Pod: serving(0), Budgets: []budget.Budget{b}, Book: ledger.Book{Shares: tc.shares}})
			if refused := got.Verdict == budget.Refused; refused != (tc.refused != "") || !strings.Contains(got.Message, tc.refused) || tc.reason != "" && got.Reason != tc.reason {
				t.Errorf("%s %s %q, want %q", got.Verdict, got.Reason, got.Message, tc.refused)
			}
		})
	}
}

// TestAReplicaThatKnowsOfNoPeers has an old cache, which shows the budget without its federation: the book tells.
func TestAReplicaThatKnowsOfNoPeers(t *testing.T) {
	b := most("1", pods(3))
	in := budget.Input{Now: now, Namespace: "a", Vector: budget.Evict, Pod: serving(0), Budgets: []budget.Budget{b}}
	in.Book.Shares = []ledger.Share{{Budget: b.Name, UID: "another"}, {Budget: "another", UID: b.UID}}
	if got := budget.Plan(in); got.Verdict != budget.Allowed {
		t.Errorf("shares of others: %s %q", got.Verdict, got.Message)
	}
	in.Book.Shares = append(in.Book.Shares, ledger.Share{Budget: b.Name, UID: b.UID})
	if got := budget.Plan(in); got.Verdict != budget.Refused || got.Reason != budget.ReasonPeers {
		t.Errorf("a share of its own: %s %q", got.Verdict, got.Message)
	}
}

// TestAScaleInNeedsUnits scales a site from three pods to two. Its peers rely on three, unless all sites together want
// fewer pods than must be available.
func TestAScaleInNeedsUnits(t *testing.T) {
	spec := sites.Spec{MinAvailable: limit("4"), Members: []sites.Site{"/a/web", "/b/web"}}
	b := least("4", pods(3))
	b.Expected = 2
	share := ledger.Share{Budget: b.Name, UID: b.UID, Spec: spec.Hash(), Group: "g", Agreement: "x", Open: true, Least: true, Base: 3}
	for expected, allowed := range map[int32]bool{3: false, 2: false, 1: true} {
		b.Sites = &budget.Sites{Self: "/a/web", Spec: spec, Peers: map[sites.Site]sites.Heard{"/b/web": {Expected: expected}}}
		got := budget.Plan(budget.Input{
			Now: now, Namespace: "a", Vector: budget.ScaleIn, Pod: serving(0), Budgets: []budget.Budget{b}, Book: ledger.Book{Shares: []ledger.Share{share}},
		})
		if (got.Verdict == budget.Allowed) != allowed {
			t.Errorf("the peer wants %d pods: %s %q", expected, got.Verdict, got.Message)
		}
	}
}

// TestABookThatWasPutBack has units that a peer has taken, or a peer that has not sent what was taken.
func TestABookThatWasPutBack(t *testing.T) {
	spec := sites.Spec{MaxUnavailable: limit("1"), Members: []sites.Site{"/a/web", "/b/web"}}
	for name, tc := range map[string]struct{ known, shown ledger.PeerUnits }{
		"this one": {ledger.PeerUnits{Site: "/b/web"}, ledger.PeerUnits{Site: "/a/web", Taken: 1}},
		"its peer": {ledger.PeerUnits{Site: "/b/web", Taken: 1}, ledger.PeerUnits{Site: "/a/web"}},
	} {
		b := most("1", pods(3))
		share := ledger.Share{Budget: b.Name, UID: b.UID, Spec: spec.Hash(), Group: "g", Agreement: "x", Open: true, Base: 1, Peers: []ledger.PeerUnits{tc.known}}
		report := sites.Report{Share: ledger.Share{Group: "g", Agreement: "x", Peers: []ledger.PeerUnits{tc.shown}}}
		for _, strict := range []bool{true, false} { // a peer that answers tells it in any case
			b.Sites = &budget.Sites{Self: "/a/web", Spec: spec, Strict: strict, Peers: map[sites.Site]sites.Heard{"/b/web": {Reports: map[string]sites.Report{"g": report}}}}
			got := budget.Plan(budget.Input{
				Now: now, Namespace: "a", Vector: budget.Evict, Pod: serving(0), Budgets: []budget.Budget{b}, Book: ledger.Book{Shares: []ledger.Share{share}},
			})
			if got.Reason != budget.ReasonPeers || !strings.Contains(got.Message, "or was put back from a copy") {
				t.Errorf("%s: %s %q", name, got.Verdict, got.Message)
			}
		}
	}
}

// TestAScaleInThatNeedsNoUnit scales a site from three pods to two while its peers do not answer. With maxUnavailable the
// last two must be available, and then no unit is taken.
func TestAScaleInThatNeedsNoUnit(t *testing.T) {
	spec := sites.Spec{MaxUnavailable: limit("1"), Members: []sites.Site{"/a/web", "/b/web"}}
	for away, allowed := range []bool{true, false} {
		b := most("1", pods(3))
		b.Pods[1].Available = away == 0
		b.Expected = 2
		b.Sites = &budget.Sites{Self: "/a/web", Spec: spec, Strict: true, Peers: map[sites.Site]sites.Heard{"/b/web": {Problem: "cannot be read"}}}
		got := budget.Plan(budget.Input{Now: now, Namespace: "a", Vector: budget.ScaleIn, Pod: serving(0), Budgets: []budget.Budget{b}})
		if (got.Verdict == budget.Allowed) != allowed {
			t.Errorf("%d pods are away: %s %q", away, got.Verdict, got.Message)
		}
	}
}

// TestAPodDisruptionBudgetAsPeer has one with a share of one unit of two.
func TestAPodDisruptionBudgetAsPeer(t *testing.T) {
	spec := sites.Spec{MaxUnavailable: limit("2"), Members: []sites.Site{"/a/web", "/b/pdb/web"}}
	heard := func(units, why string) map[sites.Site]sites.Heard {
		return map[sites.Site]sites.Heard{"/b/pdb/web": {Spec: sites.Spec{MaxUnavailable: limit(units)}, Unsettled: why}}
	}
	groups, _ := sites.GroupsOf("/a/web", spec, 3, heard("1", ""))
	share := ledger.Share{Budget: "web", UID: "b-web", Spec: spec.Hash(), Group: groups[0].ID, Agreement: "x", Open: true, Base: 1}
	for name, tc := range map[string]struct {
		peers   map[sites.Site]sites.Heard
		lenient bool
		refused string
	}{
		"as agreed":           {peers: heard("1", "")},
		"it lacks pods":       {peers: heard("1", "lacks 1 pods"), refused: "peer /b/pdb/web lacks 1 pods"},
		"reserved":            {peers: heard("1", "lacks 1 pods"), lenient: true},
		"it was loosened":     {peers: heard("2", ""), refused: "was changed: they will agree again"},
		"it was loosened far": {peers: heard("3", ""), refused: "let 3 pods go, and all sites together may let 2"},
		"it is silent":        {peers: map[sites.Site]sites.Heard{"/b/pdb/web": {Problem: "cannot be read"}}, refused: "peer /b/pdb/web cannot be read"},
	} {
		b := most("2", pods(3))
		b.Sites = &budget.Sites{Self: "/a/web", Spec: spec, Strict: !tc.lenient, Peers: tc.peers}
		got := budget.Plan(budget.Input{Now: now, Namespace: "a", Vector: budget.Evict, Pod: serving(0), Budgets: []budget.Budget{b}, Book: ledger.Book{Shares: []ledger.Share{share}}})
		if (got.Verdict == budget.Refused) != (tc.refused != "") || !strings.Contains(got.Message, tc.refused) {
			t.Errorf("%s: %s %q, want %q", name, got.Verdict, got.Message, tc.refused)
		}
	}
}

// TestAUnitIsAskedForWhereItHelps refuses an eviction by the share, and by something else beside it. A request that other
// things keep waits for no unit: it would keep the unit from those that can use it.
func TestAUnitIsAskedForWhereItHelps(t *testing.T) {
	spec := sites.Spec{MaxUnavailable: limit("1"), Members: []sites.Site{"/a/web", "/b/web"}}
	b := most("1", pods(3))
	b.Name, b.Sites = budget.NameOf("web"), &budget.Sites{Self: "/a/web", Spec: spec, Peers: map[sites.Site]sites.Heard{}}
	other := most("0", pods(3))
	other.Name = "other"
	with := func(change func(*budget.Input)) budget.Input {
		in := budget.Input{Now: now, Namespace: "a", Vector: budget.Evict, Pod: serving(0), Budgets: []budget.Budget{b}}
		in.Book.Shares = []ledger.Share{{Budget: b.Name, UID: b.UID, Spec: spec.Hash(), Group: "g", Agreement: "x", Open: true}}
		change(&in)
		return in
	}
	child := func(in *budget.Input) {
		with := *b.Sites
		with.Child, in.PDBs = true, []budget.PDB{{Name: "web"}}
		in.Budgets[0].Sites = &with
	}
	lost, full := budget.Place{Asked: true, Node: "n1"}, map[string]ledger.Entry{}
	for i := range ledger.MostEntries {
		full[fmt.Sprint(i)] = ledger.Entry{Expires: now.Add(ledger.Bound)}
	}
	const asks = ", which this request asks for"
	for name, tc := range map[string]struct {
		change        func(*budget.Input)
		blocked, says bool
	}{
		"the share alone":                 {func(*budget.Input) {}, false, true},
		"a dry run":                       {func(in *budget.Input) { in.DryRun = true }, false, false},
		"another budget":                  {func(in *budget.Input) { in.Budgets = append(in.Budgets, other) }, true, false},
		"another budget, and a unit":      {func(in *budget.Input) { in.Budgets, in.Book.Shares[0].Base = append(in.Budgets, other), 1 }, true, false},
		"no budget over sites":            {func(in *budget.Input) { in.Budgets, in.Book.Shares = []budget.Budget{other}, nil }, false, false},
		"another PodDisruptionBudget":     {func(in *budget.Input) { in.PDBs = []budget.PDB{{Name: "other"}} }, true, false},
		"one of its name, no child":       {func(in *budget.Input) { in.PDBs = []budget.PDB{{Name: "web"}} }, true, false},
		"the child":                       {child, false, false},
		"the child, and another budget":   {func(in *budget.Input) { child(in); in.Budgets = append(in.Budgets, other) }, true, false},
		"a lost place":                    {func(in *budget.Input) { in.Budgets[0].Rules.KeepPlace, in.Place = true, lost }, true, false},
		"a lost place that none keeps":    {func(in *budget.Input) { in.Place = lost }, false, true},
		"a full book":                     {func(in *budget.Input) { in.Book.Entries = full }, true, false},
		"two budgets over sites, at once": {func(in *budget.Input) { in.Budgets = append(in.Budgets, b) }, false, true},
	} {
		got := budget.Plan(with(tc.change))
		if got.Verdict != budget.Refused || got.Blocked != tc.blocked || strings.Contains(got.Message, asks) != tc.says {
			t.Errorf("%s: %s, blocked %t, %q", name, got.Verdict, got.Blocked, got.Message)
		}
	}
}
