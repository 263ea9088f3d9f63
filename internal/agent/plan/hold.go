package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// holdAfter is the age from which the clock of a reservation begins again, unless a quarter of its time is shorter. A pod
// without finalizers is gone a second after its sandbox.
const holdAfter = time.Minute

// Held returns the reservations whose clock begins again now: the sandbox of the pod has ended, and a finalizer keeps the
// pod, so that its successor cannot be there yet.
func Held(in OrphansInput) []reservation.Reservation {
	terminating := map[types.UID]bool{}
	for i := range in.Pods.Items {
		if p := &in.Pods.Items[i]; p.DeletionTimestamp != nil && !NeverReturns(p) {
			terminating[p.UID] = true
		}
	}
	var held []reservation.Reservation
	for _, r := range in.Reservations {
		if terminating[types.UID(r.UID)] && in.Now.Since(r.Deadline.From) >= min(holdAfter, r.Deadline.For/4) {
			held = append(held, r)
		}
	}
	return held
}
