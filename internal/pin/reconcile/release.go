package reconcile

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/evict"
)

// releaser deletes pods that are released from their required place, or from a node that has not
// started them. Their owner creates them again, and the webhook finds in the status that they may
// run elsewhere. Nothing is lost with such a pod: it never ran.
type releaser struct {
	evictor  *evict.Evictor
	leases   *LeaseMonitor
	reporter reporter
}

// release reports the pods that wait, and deletes those that are released. by is the
// object that made them wait. A pod that its budgets keep does not keep the others.
func (r releaser) release(ctx context.Context, by runtime.Object, waits []pin.Wait) error {
	var errs []error
	for _, w := range waits {
		if w.Decision.Verdict == pin.Hold {
			if w.Changed {
				r.reporter.waiting(w, by)
			}
			continue
		}
		deleted, err := r.delete(ctx, w)
		if err != nil {
			errs = append(errs, fmt.Errorf("release from required place: %w", err))
		}
		if !deleted {
			continue
		}
		r.reporter.released(w, by)
		log.FromContext(ctx).Info("Released pod", "pod", w.Pod.Name, "place", w.Place.String(), "reason", w.Decision.Reason)
	}
	return errors.Join(errs...)
}

// delete deletes one pod. The kubelet of a stranded pod's node is looked for once more: the cache
// may be behind, and a pod that can start in a moment stays. The event of its node or of the pod
// triggers the next decision.
func (r releaser) delete(ctx context.Context, w pin.Wait) (deleted bool, err error) {
	if !w.Stranded() {
		return r.evictor.Delete(ctx, w.Pod)
	}
	silent, err := r.leases.Overdue(ctx, w.Pod.Spec.NodeName)
	if !silent || err != nil {
		return false, err
	}
	return r.evictor.DeleteUnstarted(ctx, w.Pod)
}
