package lifecycle

import (
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// free deletes a reservation, whose addresses no pod has used since the reservation began.
func free(tx *persistence.Tx, r reservation.Reservation, now reservation.Moment) error {
	if err := tx.DeleteReservation(r.Owner); err != nil {
		return err
	}
	return tx.PutReleased(r.Owner.Network, r.Addresses, r.Deadline.From, now)
}
