package agent

import (
	"context"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// sweep frees the reservations whose time is over and returns how many there were.
// It writes only when there are some, and decides again inside the transaction,
// since an owner may have come back meanwhile.
func sweep(ctx context.Context, store *persistence.Store, networks []Network, now reservation.Moment) (int, error) {
	var lapsed []reservation.Owner
	for _, n := range networks {
		for _, r := range reservation.Lapsed(n.Reservations, now) {
			lapsed = append(lapsed, r.Owner)
		}
	}
	if len(lapsed) == 0 {
		return 0, nil
	}
	freed := 0
	err := store.Update(ctx, func(tx *persistence.Tx) error {
		freed = 0
		for _, o := range lapsed {
			r, found, err := tx.Reservation(o)
			if err != nil {
				return err
			}
			if !found || !r.Deadline.Passed(now) {
				continue
			}
			if err := tx.DeleteReservation(o); err != nil {
				return err
			}
			freed++
		}
		return nil
	})
	return freed, err
}
