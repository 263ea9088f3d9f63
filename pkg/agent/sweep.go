package agent

import (
	"context"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// sweep frees the reservations whose deadline has passed and returns their number. It writes only when there
// are some, and decides again inside the transaction, since an owner may have come back meanwhile.
func sweep(ctx context.Context, store *persistence.Store, networks []Network, now reservation.Moment) (int, error) {
	var due []string
	for _, n := range networks {
		if len(reservation.Lapsed(n.Reservations, now)) > 0 {
			due = append(due, n.Name)
		}
	}
	if len(due) == 0 {
		return 0, nil
	}
	freed := 0
	err := store.Update(ctx, func(tx *persistence.Tx) error {
		freed = 0
		for _, network := range due {
			n, err := lifecycle.FreeLapsed(tx, network, now)
			if err != nil {
				return err
			}
			freed += n
		}
		return nil
	})
	return freed, err
}
