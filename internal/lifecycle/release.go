package lifecycle

import (
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// FreeEarly deletes a reservation before its deadline, unless it is on loan, or another life of its owner has made it or
// claimed it since it was read. It reports whether it did.
func FreeEarly(tx *persistence.Tx, r reservation.Reservation, now reservation.Moment) (bool, error) {
	stored, found, err := tx.Reservation(r.Owner)
	if err != nil || !found || stored.Seq != r.Seq || stored.OnLoan() {
		return false, err
	}
	return true, free(tx, stored, now)
}

// free deletes a reservation, whose addresses no pod has used since the reservation began.
func free(tx *persistence.Tx, r reservation.Reservation, now reservation.Moment) error {
	if err := tx.DeleteReservation(r.Owner); err != nil {
		return err
	}
	return tx.PutReleased(r.Release(), now)
}
