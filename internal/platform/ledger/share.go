package ledger

import "slices"

// Share is what a book holds of a budget over sites, for one group of sites that agree on a number.
// Package internal/budget/sites says how it changes.
type Share struct {
	Budget, UID string // the budget
	// Spec is what the spec of the budget said, and Group what the sites agree on, each as a hash.
	Spec, Group string
	// Nonce is a random text: a share that was lost or closed is never taken for its successor. Base is the number
	// that the share has at the beginning of the agreement.
	Nonce string
	Base  int32
	// Least: the number is how many pods must be available here, and not how many may be unavailable.
	Least bool
	// Agreement is a hash of the nonces of all sites, and Peers has those that it was made of. Open tells
	// that units may be used, sent and taken.
	Agreement string
	Open      bool
	Peers     []PeerUnits
}

// PeerUnits are the units that went to a peer and came from it since the beginning of the agreement. Both only grow.
type PeerUnits struct {
	Site, Nonce string
	Sent, Taken int64
}

// Number is what the share lets the site do: how many pods may be unavailable here, or how many must be available.
func (s Share) Number() int32 {
	net := int64(0)
	for _, p := range s.Peers {
		net += p.Taken - p.Sent
	}
	if s.Least {
		return s.Base - int32(net)
	}
	return s.Base + int32(net)
}

// Peer returns the units of one peer; false for a site that the agreement does not have.
func (s Share) Peer(site string) (PeerUnits, bool) {
	for _, p := range s.Peers {
		if p.Site == site {
			return p, true
		}
	}
	return PeerUnits{}, false
}

// SharesOf returns the shares of a budget.
func SharesOf(b Book, budget, uid string) (found []Share) {
	for _, s := range b.Shares {
		if s.Budget == budget && s.UID == uid {
			found = append(found, s)
		}
	}
	return found
}

// PutShares replaces the shares of all budgets of a name. It returns false where the book has no room for them: it is
// then without any.
func PutShares(b Book, budget string, shares []Share) (Book, bool) {
	b.Shares = slices.DeleteFunc(slices.Clone(b.Shares), func(s Share) bool { return s.Budget == budget })
	all := slices.Concat(b.Shares, shares)
	size := 0
	for _, s := range all {
		size += shareBytes
		for _, p := range s.Peers {
			size += unitBytes + len(p.Site)
		}
	}
	if len(shares) > 0 && size > mostShares {
		return b, false
	}
	b.Shares = all
	return b, true
}
