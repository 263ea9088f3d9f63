package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// refill makes the state of a node that has none from the reservations that the API shows of the node: it was installed
// again under its name, and its pods come back. It does nothing where pods with addresses run: they make the state.
func (a *Agent) refill(ctx context.Context) error {
	begun, err := a.store.Initialized()
	if err != nil || begun {
		a.refilled = err == nil
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fullPeriod)
	defer cancel()
	shown, err := a.show.Shown(ctx)
	if err != nil {
		return fmt.Errorf("look for reservations of this node: %w", err)
	}
	all := plan.Refill(a.Node, shown, a.MaxRetain, a.Now())
	running, err := a.Running(a.StateDir)
	if a.refilled = err == nil; err != nil || len(running) > 0 || len(all) == 0 {
		return err
	}
	n := 0
	err = a.store.Update(ctx, func(tx *persistence.Tx) (err error) {
		n, err = refillFrom(tx, all)
		return err
	})
	if err == nil {
		a.metrics.recovered(recoveredNode, n)
		a.Log.Info("This node had no state, and the API shows reservations of it: the node was installed again, and its pods get their addresses back", "reservations", n)
	}
	return err
}

// refillFrom stores reservations, and counts them. An address has one holder: of two reservations the first one counts.
func refillFrom(tx *persistence.Tx, all []reservation.Reservation) (n int, err error) {
	if err := tx.CountRecovery(); err != nil { // so that the first ADD of a network looks at what namespaces have
		return 0, err
	}
	for _, r := range all {
		if r.Seq, err = tx.NextSeq(); err != nil {
			return 0, err
		}
		held := false
		for _, addr := range r.Addresses {
			is, err := tx.Held(r.Owner.Network, addr)
			if err != nil {
				return 0, err
			}
			held = held || is
		}
		if held {
			continue
		}
		if err := tx.PutReservation(r); err != nil && !errors.Is(err, persistence.ErrName) {
			return 0, err
		}
		n++
	}
	return n, nil
}
