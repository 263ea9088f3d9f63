package lifecycle

import (
	"net/netip"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// free deletes a reservation, whose addresses no pod has used since the reservation began.
func free(tx *persistence.Tx, r reservation.Reservation, now reservation.Moment) error {
	if err := tx.DeleteReservation(r.Owner); err != nil {
		return err
	}
	return delay(tx, r.Owner.Network, r.Addresses, r.Deadline.From, now)
}

// delay begins the release delay of addresses that a pod used until a moment.
func delay(tx *persistence.Tx, network string, addrs []netip.Addr, until, now reservation.Moment) error {
	usage, err := tx.PoolUsage(network)
	if err != nil || usage.Limits == nil {
		return err
	}
	return tx.PutReleased(network, addrs, reservation.Deadline{From: until, For: usage.Limits.ReleaseDelay}, now)
}
