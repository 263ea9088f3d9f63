package lifecycle

import (
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// FreeLapsed deletes the reservations of a network whose deadline has passed, and returns their number.
func FreeLapsed(tx *persistence.Tx, network string, now reservation.Moment) (int, error) {
	lapsed, err := tx.LapsedReservations(network, now)
	if err != nil {
		return 0, err
	}
	for _, r := range lapsed {
		if err := free(tx, r, now); err != nil {
			return 0, err
		}
	}
	return len(lapsed), nil
}
