package agent

import (
	"context"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// orphanGrace is how long a namespace must be gone until its reservations end.
const orphanGrace = time.Hour

// freeOrphans deletes the reservations that no pod will claim, and those that users give up. The state file is written
// only when there are some. The transaction decides again: owners may have returned since the state was read.
func (a *Agent) freeOrphans(ctx context.Context, networks []network) error {
	in := plan.OrphansInput{Now: a.Now(), Gone: a.show.Gone(), Grace: a.OrphanGrace, Marks: a.show.Marks()}
	for _, n := range networks {
		in.Reservations = append(in.Reservations, n.Reservations...)
	}
	if len(in.Reservations) == 0 {
		return nil
	}
	if pods, known, _ := a.Pods.Pods(ctx); known { // the step that corrects attachments returns the error
		in.Pods = pods
	}
	orphans := plan.Orphans(in)
	if len(orphans) == 0 {
		return nil
	}
	freed, err := freeEarly(ctx, a.store, orphans, in.Now)
	if err != nil {
		return err
	}
	for cause, n := range freed {
		a.metrics.orphans.WithLabelValues(string(cause)).Add(float64(n))
		a.Log.Info("Freed reservations before their time", "cause", cause, "count", n)
	}
	return nil
}

// holdTerminating begins the clock of reservations again while their pods are Terminating.
func (a *Agent) holdTerminating(ctx context.Context, networks []network) error {
	in := plan.OrphansInput{Now: a.Now()}
	for _, n := range networks {
		in.Reservations = append(in.Reservations, n.Reservations...)
	}
	if pods, known, _ := a.Pods.Pods(ctx); known && len(in.Reservations) > 0 {
		in.Pods = pods
	}
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

// freeEarly deletes reservations in one transaction, and counts them by cause.
func freeEarly(ctx context.Context, store *persistence.Store, orphans []plan.Orphan, now reservation.Moment) (freed map[plan.Cause]int, err error) {
	err = store.Update(ctx, func(tx *persistence.Tx) error {
		freed = map[plan.Cause]int{}
		for _, o := range orphans {
			was, err := lifecycle.FreeEarly(tx, o.Reservation, now)
			if err != nil {
				return err
			}
			if was {
				freed[o.Cause]++
			}
		}
		return nil
	})
	return freed, err
}
