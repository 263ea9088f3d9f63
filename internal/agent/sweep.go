package agent

import (
	"context"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// freeLapsed deletes the reservations whose deadline has passed. The state file is written
// only when there are some. The transaction decides again: owners may have returned since
// the state was read.
func (a *Agent) freeLapsed(ctx context.Context, networks []network) error {
	now := a.Now()
	var due []string
	for _, n := range networks {
		if len(reservation.Lapsed(n.Reservations, now)) > 0 {
			due = append(due, n.Name)
		}
	}
	if len(due) == 0 {
		return nil
	}
	freed := 0
	err := a.store.Update(ctx, func(tx *persistence.Tx) error {
		freed = 0
		for _, name := range due {
			n, err := lifecycle.FreeLapsed(tx, name, now)
			if err != nil {
				return err
			}
			freed += n
		}
		return nil
	})
	if err == nil && freed > 0 {
		a.metrics.lapsed.Add(float64(freed))
		a.Log.Info("Freed lapsed reservations", "count", freed)
	}
	return err
}
