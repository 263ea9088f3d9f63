package claim

import (
	"slices"
	"strings"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Input is an IPAMClaim, with what is kept under its name.
type Input struct {
	// Network is the network of the claim, by the name in its configuration.
	Network string
	// Shown are the addresses in the status, and Ours tells that this controller has written them.
	Shown []string
	Ours  bool
	// Held are the IPReservations of the claim, on all networks and nodes.
	Held []limpetv1alpha1.IPReservation
}

// Decision is what to write.
type Decision struct {
	// Show are the addresses that the status is to show; Write is set if it does not yet.
	Show  []string
	Write bool
}

// Plan decides. The status of a claim that nothing is kept for stays as another program wrote it.
func Plan(in Input) (d Decision) {
	if best := in.newest(); best != nil {
		d.Show = strings.Split(best.Status.IPs, ",")
	}
	d.Write = !slices.Equal(d.Show, in.Shown) && (d.Show != nil || in.Ours)
	return d
}

// newest returns what the claim's network shows: addresses of a pod go before those that are kept, and of these the ones
// that are kept for longest. Of two pods that run, the one that is shown already stays.
func (in Input) newest() (best *limpetv1alpha1.IPReservation) {
	for i := range in.Held {
		if r := &in.Held[i]; r.Status.Network == in.Network && (best == nil || in.before(r, best)) {
			best = r
		}
	}
	return best
}

func (in Input) before(a, b *limpetv1alpha1.IPReservation) bool {
	if until, other := a.Status.Until, b.Status.Until; !until.Equal(other) {
		return until == nil || other != nil && other.Before(until)
	}
	if shown := strings.Join(in.Shown, ","); a.Status.IPs == shown || b.Status.IPs == shown {
		return a.Status.IPs == shown
	}
	return a.Status.IPs < b.Status.IPs
}
