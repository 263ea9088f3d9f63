package agent

import (
	"context"
	"fmt"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// refill makes the state of a node that has none from the reservations that the API shows of the node: it was installed
// again under its name, and its pods come back. It does nothing where pods with addresses run: they make the state.
func (a *Agent) refill(ctx context.Context) error {
	a.refilling.Lock() // rounds and loans may both find that there is no state
	defer a.refilling.Unlock()
	begun, err := a.store.Initialized()
	if err != nil || begun {
		a.refilled.Store(err == nil)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fullPeriod)
	defer cancel()
	shown, err := a.show.Shown(ctx)
	if err != nil {
		return fmt.Errorf("look for reservations of this node: %w", err)
	}
	all := plan.Refill(a.Node, shown, a.MaxRetain, a.Now())
	store, err := a.begin()
	if err != nil || store == nil || len(all) == 0 {
		a.refilled.Store(err == nil)
		return err
	}
	err = store.Update(ctx, func(tx *persistence.Tx) error {
		err := tx.CountRecovery() // so that the first ADD of a network looks at what namespaces have
		for i := 0; err == nil && i < len(all); i++ {
			if all[i].Seq, err = tx.NextSeq(); err == nil {
				err = tx.PutReservation(all[i])
			}
		}
		return err
	})
	if err == nil {
		a.refilled.Store(true)
		a.metrics.recovered(recoveredNode, len(all))
		a.Log.Info("This node had no state, and the API shows reservations of it: its files are gone, and its pods get their addresses back", "reservations", len(all))
	}
	return err
}

// noteState has a state refilled that was there and is gone: until then the API shows what it was.
func (a *Agent) noteState() error {
	exists, err := a.store.Initialized()
	if err != nil {
		return err
	}
	if a.hadState && !exists {
		a.refilled.Store(false)
	}
	a.hadState = exists
	return nil
}

// begin returns the store with which the agent may begin the state of a node that has none; nil where pods with addresses run:
// only verbs, which know the pods, may.
func (a *Agent) begin() (*persistence.Store, error) {
	running, err := a.Running(a.StateDir)
	if err != nil || len(running) > 0 {
		return nil, err
	}
	return persistence.New(persistence.Options{Dir: a.StateDir}), nil
}
