package reconcile

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/evict"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// errDropped tells that a CRD of an earlier version is installed, which does not keep the note that a pod returns.
// Without the note a pod would be deleted again and again.
var errDropped = errors.New("the CRD of PersistentPodStates drops returningAt: apply the CRDs of this version")

// bringHome deletes a pod that returns to its home, under its budgets. The status says already that
// the pod returns, and the webhook plans the next pod of its name for its home. A pod that its
// budgets keep, or that has changed, is looked at again later.
func (r *Recorder) bringHome(ctx context.Context, state *appsv1beta1.PersistentPodState, pod *corev1.Pod) error {
	if pod == nil {
		return nil
	}
	if home := state.Status.PodStates[pod.Name].Home; home == nil || home.ReturningAt == nil {
		r.reporter().notRecorded(state, fmt.Errorf("bring pod %s home: %w", pod.Name, errDropped))
		return nil
	}
	deleted, err := r.Evictor.Delete(ctx, pod)
	var refused *evict.RefusedError
	switch {
	case errors.As(err, &refused) || cluster.Conflict(err):
		log.FromContext(ctx).V(1).Info("Pod does not return yet", "pod", pod.Name, "reason", err.Error())
		return nil
	case err != nil:
		return fmt.Errorf("bring home: %w", err)
	case deleted:
		r.reporter().returning(state, pod)
	}
	return nil
}
