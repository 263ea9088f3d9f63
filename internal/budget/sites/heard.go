package sites

// Heard is what a site knows of a peer.
type Heard struct {
	Spec                       Spec
	Expected, Healthy, Allowed int32
	// Reports by the ID of their group.
	Reports map[string]Report
	// Problem says why nothing is known, or "".
	Problem string
}

// ReportsOf returns what the peers show of a group.
func ReportsOf(heard map[Site]Heard, group string) map[Site]Report {
	reports := map[Site]Report{}
	for site, h := range heard {
		if r, shown := h.Reports[group]; shown {
			reports[site] = r
		}
	}
	return reports
}
