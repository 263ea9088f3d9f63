package budget

import (
	"context"
	"errors"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/workloads"
	"github.com/limpet-io/limpet/pkg/budget"
)

// wake makes the controllers of StatefulSets retry whose requests were refused while no unit was free.
// It returns when each of them was last woken.
func (r *Reconciler) wake(ctx context.Context, s *situation, last known, units int32) (map[types.UID]time.Time, error) {
	of := map[types.UID]*metav1.OwnerReference{}
	for _, pod := range s.facts.Pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref != nil && ref.Kind == workloads.StatefulSets.Kind && strings.HasPrefix(ref.APIVersion, "apps") { // of OpenKruise, too
			of[pod.UID] = ref
		}
	}
	woken := map[types.UID]time.Time{}
	for _, w := range s.book.Waiting {
		if at, ok := last.woken[types.UID(w.UID)]; ok {
			woken[types.UID(w.UID)] = at
		}
	}
	var errs []error
	known := func(uid string) (time.Time, bool) { return woken[types.UID(uid)], of[types.UID(uid)] != nil }
	for _, w := range budget.Wake(s.book.Waiting, int(units), s.now, known) {
		ref := of[types.UID(w.UID)]
		woken[types.UID(w.UID)] = s.now
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		errs = append(errs, workloads.Nudge(ctx, r.Client, kind, client.ObjectKey{Namespace: s.pub.Namespace, Name: ref.Name}, s.now))
	}
	return woken, errors.Join(errs...)
}
