package budget

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/budget/sites"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// Sites is what is known of the peers of a budget with federation.
type Sites struct {
	Self sites.Site
	Spec sites.Spec
	// Strict: no pod may go while a peer does not answer, or lacks pods beyond its share.
	Strict bool
	// Child tells that a PodDisruptionBudget says what the share does.
	Child bool
	Peers map[sites.Site]sites.Heard
}

// local is a budget with the number of a share.
func (b Budget) local(s ledger.Share, several bool) Budget {
	number := new(intstr.FromInt32(max(s.Number(), 0)))
	if b.MaxUnavailable, b.MinAvailable = number, nil; s.Least {
		b.MaxUnavailable, b.MinAvailable = nil, number
	}
	if several && len(s.Peers) > 0 {
		b.Group = "with " + s.Peers[0].Site
	}
	switch {
	case !s.Open:
		b.Closed = b.Sites.Disagreement(b.Expected)
	case b.Sites.Strict:
		b.Closed = b.Sites.strict(s)
	default:
		b.Closed = b.Sites.contradicted(s)
	}
	return b
}

// contradicted says which peer that answers shows other units than the book has, which was then put back from a copy; "" for none.
func (k *Sites) contradicted(s ledger.Share) string {
	for _, known := range s.Peers {
		r, shown := k.Peers[sites.Site(known.Site)].Reports[s.Group]
		if shown && r.Share.Agreement == s.Agreement && !agrees(known, r, string(k.Self)) {
			return fmt.Sprintf("peer %s has taken other units than this book has sent, or was put back from a copy: they will agree again", known.Site)
		}
	}
	return ""
}

// Contradicted reports whether a peer shows other units than a book has. What the book has taken may be newer than what was read.
func (b Budget) Contradicted(book ledger.Book) bool {
	return slices.ContainsFunc(ledger.SharesOf(book, b.Name, b.UID), func(s ledger.Share) bool { return b.Sites.contradicted(s) != "" })
}

// Disagreement says why the sites share no units, of which this one wants some pods.
func (k *Sites) Disagreement(expected int32) string {
	for _, site := range k.Spec.Members {
		if why := cmp.Or(k.Peers[site].Problem, k.Peers[site].Unsettled); why != "" {
			return fmt.Sprintf("peer %s %s", site, why)
		}
	}
	if len(k.Peers) == len(k.Spec.Members)-1 {
		if _, problem := sites.GroupsOf(k.Self, k.Spec, expected, k.Peers); problem != "" {
			return problem
		}
	}
	return "its peers have not agreed on it yet"
}

// fixed says which PodDisruptionBudget keeps pods from going, or has another share than the sites have agreed on; "" for none.
func (k *Sites) fixed(s ledger.Share) string {
	plain := false
	for _, site := range k.Spec.Members {
		if !site.Fixed() {
			continue
		}
		plain = true
		if why := cmp.Or(k.Peers[site].Problem, k.Peers[site].Unsettled); why != "" {
			return fmt.Sprintf("peer %s %s", site, why)
		}
	}
	if !plain {
		return ""
	}
	groups, problem := sites.GroupsOf(k.Self, k.Spec, 0, k.Peers)
	if problem == "" && !slices.ContainsFunc(groups, func(g sites.Group) bool { return g.ID == s.Group }) {
		problem = "a PodDisruptionBudget among its peers was changed: they will agree again"
	}
	return problem
}

// strict says which peer keeps pods from going; "" for none.
func (k *Sites) strict(s ledger.Share) string {
	if why := cmp.Or(k.fixed(s), k.contradicted(s)); why != "" {
		return why
	}
	for _, known := range s.Peers {
		site := sites.Site(known.Site)
		heard, asked := k.Peers[site]
		r, shown := heard.Reports[s.Group]
		switch {
		case !asked:
			return fmt.Sprintf("peer %s was not asked", site)
		case heard.Problem != "":
			return fmt.Sprintf("peer %s %s", site, heard.Problem)
		case !shown || r.Share.Agreement != s.Agreement:
			return fmt.Sprintf("peer %s has not agreed on it yet", site)
		case r.Short > 0:
			return fmt.Sprintf("peer %s lacks %d pods beyond its share", site, r.Short)
		}
	}
	return ""
}

// agrees reports whether what a peer shows may be what a book knows of it, unless the book is newer.
func agrees(known ledger.PeerUnits, r sites.Report, self string) bool {
	shown, _ := r.Share.Peer(self)
	return shown.Taken <= known.Sent && shown.Sent >= known.Taken
}

// needsNone reports whether a scale-in takes no unit of the sites: all pods that the workload still wants are available.
func (b *Budget) needsNone(in *Input) bool {
	return in.Vector == ScaleIn && b.Sites != nil && b.Sites.Spec.MinAvailable == nil && b.Unknown == "" &&
		b.available(in.Book, in.Now, in.Pod.UID) >= b.Expected
}

// wantLess reports whether the workloads of all sites, of which this one wants some pods, want fewer than must be available:
// then a scale-in needs no units of peers.
func (k *Sites) wantLess(here int32) bool {
	if k == nil || k.Spec.MinAvailable == nil {
		return true
	}
	sum := int64(here)
	for _, peer := range k.Peers {
		if sum += int64(peer.Expected); peer.Problem != "" {
			return false
		}
	}
	return sum < int64(k.Spec.MinAvailable.IntVal)
}

func overSites(b Budget) bool { return b.Sites != nil }

// hasChild reports whether a PodDisruptionBudget is the child of a budget: it refuses until a unit comes.
func (in *Input) hasChild(b Budget) bool {
	return overSites(b) && b.Sites.Child && slices.ContainsFunc(in.PDBs, func(p PDB) bool { return b.Name == NameOf(p.Name) })
}

// blocked reports whether a unit of a peer would not let the pod go, because something else refuses, too.
func (in *Input) blocked(blocks []block) bool {
	return slices.ContainsFunc(in.Budgets, overSites) && slices.ContainsFunc(blocks, func(b block) bool {
		return !overSites(*b.budget) || b.reason != ReasonExhausted && b.reason != ReasonPeers ||
			b.budget.Rules.KeepPlace && in.losesPlace() != "" || !in.hasRoom() && !inUse(in.Book, in.Pod.UID, in.Now)
	})
}

// units says what a share is part of.
func (b *Budget) units() string {
	whole := Budget{MaxUnavailable: b.Sites.Spec.MaxUnavailable, MinAvailable: b.Sites.Spec.MinAvailable}
	return fmt.Sprintf("its share of %s in %d sites", whole.limit(), len(b.Sites.Spec.Members))
}
