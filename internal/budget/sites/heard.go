package sites

import (
	"slices"
	"time"
)

// Heard is what a site knows of a peer.
type Heard struct {
	Spec                       Spec
	Expected, Healthy, Allowed int32
	// Reports by the ID of their group.
	Reports map[string]Report
	// Unsettled says why a PodDisruptionBudget may lack pods beyond its share, or "".
	Unsettled string
	// Problem says why nothing is known, or "".
	Problem string
}

// Shows returns the number that a site has by its share in the first group that it is in, and since when a request waits there.
func (h Heard) Shows(site Site, groups []Group) (number int32, since time.Time) {
	if site.Fixed() {
		return h.Spec.number(), since
	}
	for _, g := range groups {
		if r, shown := h.Reports[g.ID]; shown && slices.Contains(g.Members, site) {
			return r.Share.Number(), r.Since
		}
	}
	return 0, since
}

// ReportsOf returns what the peers show of a group.
func ReportsOf(heard map[Site]Heard, group string) map[Site]Report {
	reports := map[Site]Report{}
	for site, h := range heard {
		if r, shown := h.Reports[group]; shown {
			r.Spare, r.Has = Spare(Input{Used: max(h.Expected-h.Healthy, 0), Has: h.Healthy}, r.Share), h.Healthy
			reports[site] = r
		}
	}
	return reports
}
