package budget

import (
	"fmt"

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
	Peers  map[sites.Site]sites.Heard
}

// Local returns the budgets with what they may do here: in the place of a budget with federation one for each of its
// shares in the book, with the number of the share. A number that changes with decisions must be read with them.
func Local(all []Budget, book ledger.Book) []Budget {
	var out []Budget
	for _, b := range all {
		if b.Sites == nil {
			if len(ledger.SharesOf(book, b.Name, b.UID)) > 0 { // the cache of this replica is old, or that of the leader
				b.Closed = "this replica does not know its peers yet"
			}
			out = append(out, b)
			continue
		}
		shares := ledger.SharesOf(book, b.Name, b.UID)
		if len(shares) == 0 || shares[0].Spec != b.Sites.Spec.Hash() {
			b.Closed = b.Sites.Disagreement()
			out = append(out, b)
		}
		for _, s := range shares {
			out = append(out, b.local(s, len(shares) > 1))
		}
	}
	return out
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
		b.Closed = b.Sites.Disagreement()
	case b.Sites.Strict:
		b.Closed = b.Sites.strict(s)
	}
	return b
}

// Disagreement says why the sites share no units.
func (k *Sites) Disagreement() string {
	for _, site := range k.Spec.Members {
		if h := k.Peers[site]; h.Problem != "" {
			return fmt.Sprintf("peer %s %s", site, h.Problem)
		}
	}
	return "its peers have not agreed on it yet"
}

// strict says which peer keeps pods from going; "" for none.
func (k *Sites) strict(s ledger.Share) string {
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
		case !agrees(known, r, string(k.Self)):
			return fmt.Sprintf("peer %s has taken other units than this book has sent, or was put back from a copy: they will agree again", site)
		case r.Short > 0:
			return fmt.Sprintf("peer %s lacks %d pods beyond its share", site, r.Short)
		}
	}
	return ""
}

// agrees reports whether what a peer shows now may be what a book knows of it, which is never newer.
func agrees(known ledger.PeerUnits, r sites.Report, self string) bool {
	shown, _ := r.Share.Peer(self)
	return shown.Taken <= known.Sent && shown.Sent >= known.Taken
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

// units says what a share is part of.
func (b *Budget) units() string {
	whole := Budget{MaxUnavailable: b.Sites.Spec.MaxUnavailable, MinAvailable: b.Sites.Spec.MinAvailable}
	return fmt.Sprintf("its share of %s in %d sites", whole.limit(), len(b.Sites.Spec.Members))
}
