package reconcile

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
)

// wake makes the controllers of workloads retry whose requests were refused while no unit was free.
// It returns when each of them was last woken.
func (r *Reconciler) wake(ctx context.Context, s *situation, last known, units int32) (map[types.UID]time.Time, error) {
	of := map[types.UID]workload.Target{}
	woken := map[types.UID]time.Time{}
	for _, w := range s.book.Waiting {
		if at, ok := last.woken[types.UID(w.UID)]; ok {
			woken[types.UID(w.UID)] = at
		}
	}
	for _, pod := range s.covered.Pods {
		if owner, ok := workload.OwnerOf(pod); ok {
			of[pod.UID] = owner
		}
	}
	var errs []error
	mayGo := s.mayGo()
	known := func(uid string) (time.Time, bool) {
		_, can := r.Kinds.Nudged(of[types.UID(uid)])
		return woken[types.UID(uid)], can && mayGo(types.UID(uid))
	}
	for _, w := range budget.Wake(s.book.Waiting, int(units), s.now, known) {
		owner := of[types.UID(w.UID)]
		woken[types.UID(w.UID)] = s.now
		kind, _ := r.Kinds.Nudged(owner)
		errs = append(errs, workloads.Nudge(ctx, r.Client, kind, client.ObjectKey{Namespace: s.pub.Namespace, Name: owner.Name}, s.now))
	}
	return woken, errors.Join(errs...)
}
