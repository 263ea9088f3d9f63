package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// AnnotationNudged on a StatefulSet says when it was last nudged; it has no other use.
const AnnotationNudged = "limpet.dev/nudged"

// nudges are the times after the start of a leader at which it looks for StatefulSets
// to nudge: the API server needs a moment to find a webhook that is back.
var nudges = []time.Duration{2 * time.Second, 8 * time.Second, 30 * time.Second}

// Nudger wakes StatefulSets whose pods were refused while no webhook was there. Their
// controller retries after a delay that has grown to minutes; a change of the object
// makes it try at once.
type Nudger struct {
	Client client.Client
	Clock  clock.Clock
}

// SetupWithManager lets the nudger run once on every new leader.
func (n *Nudger) SetupWithManager(mgr ctrl.Manager) error { return mgr.Add(n) }

// Start nudges and returns.
func (n *Nudger) Start(ctx context.Context) error {
	var past time.Duration
	for _, at := range nudges {
		select {
		case <-n.Clock.After(at - past):
			past = at
		case <-ctx.Done():
			return nil
		}
		if err := n.nudge(ctx); err != nil {
			log.FromContext(ctx).Error(err, "StatefulSets were not nudged")
		}
	}
	return nil
}

// nudge wakes whom it can: one StatefulSet that cannot be changed is no reason to leave
// the others asleep.
func (n *Nudger) nudge(ctx context.Context) error {
	var sets appsv1.StatefulSetList
	if err := n.Client.List(ctx, &sets); err != nil {
		return fmt.Errorf("list StatefulSets: %w", err)
	}
	var errs []error
	for i := range sets.Items {
		set := &sets.Items[i]
		if !waits(set) {
			continue
		}
		before := set.DeepCopy()
		if set.Annotations == nil {
			set.Annotations = map[string]string{}
		}
		set.Annotations[AnnotationNudged] = n.Clock.Now().UTC().Format(time.RFC3339)
		if err := n.Client.Patch(ctx, set, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("nudge StatefulSet %s: %w", client.ObjectKeyFromObject(set), err))
			continue
		}
		log.FromContext(ctx).Info("Nudged StatefulSet", "statefulSet", client.ObjectKeyFromObject(set))
	}
	return errors.Join(errs...)
}

// waits tells whether pods of the set may have been refused: only those that ask for
// retention ever are.
func waits(set *appsv1.StatefulSet) bool {
	_, asks := set.Spec.Template.Annotations[reservation.RetainAnnotation]
	return asks && set.DeletionTimestamp == nil && set.Status.Replicas < ptr.Deref(set.Spec.Replicas, 1)
}
