package agent

import (
	"context"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// orphanGrace is how long a namespace must be gone until its reservations end.
const orphanGrace = time.Hour

// freeOrphans deletes the reservations that no pod will claim, and those that users give up. The state file is written
// only when there are some. The transaction decides again: owners may have returned since the state was read.
func (a *Agent) freeOrphans(ctx context.Context, networks []network) error {
	in := a.reserved(ctx, networks)
	orphans := plan.Orphans(in)
	if len(orphans) == 0 {
		return nil
	}
	var freed map[plan.Cause]int
	err := a.store.Update(ctx, func(tx *persistence.Tx) error {
		freed = map[plan.Cause]int{}
		for _, o := range orphans {
			was, err := lifecycle.FreeEarly(tx, o.Reservation, in.Now)
			if err != nil {
				return err
			}
			if was {
				freed[o.Cause]++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for cause, n := range freed {
		a.metrics.orphans.WithLabelValues(string(cause)).Add(float64(n))
		a.Log.Info("Freed reservations before their time", "cause", cause, "count", n)
	}
	return nil
}

// reserved returns the reservations of the node, and what may end or hold them.
func (a *Agent) reserved(ctx context.Context, networks []network) plan.OrphansInput {
	in := plan.OrphansInput{Now: a.Now(), Gone: a.show.Gone(), Grace: a.OrphanGrace, Marks: a.show.Marks()}
	for _, n := range networks {
		in.Reservations = append(in.Reservations, n.Reservations...)
	}
	if len(in.Reservations) > 0 {
		if pods, known, _ := a.Pods.Pods(ctx); known { // the step that corrects attachments returns the error
			in.Pods = pods
		}
	}
	return in
}

// holdTerminating begins the clock of reservations again while their pods are Terminating.
func (a *Agent) holdTerminating(ctx context.Context, networks []network) error {
	in := a.reserved(ctx, networks)
	held := plan.Held(in)
	if len(held) == 0 {
		return nil
	}
	return a.store.Update(ctx, func(tx *persistence.Tx) error {
		for _, h := range held {
			r, found, err := tx.Reservation(h.Owner)
			if err == nil && found && r.Seq == h.Seq { // else the owner has returned meanwhile
				r.Deadline.From = in.Now
				err = tx.PutReservation(r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
