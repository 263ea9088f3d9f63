package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Verb is what to do with an API object.
type Verb string

// The verbs of a Change.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Change is one write to the API server.
type Change struct {
	Verb   Verb
	Object Object
}

// Key identifies an object by type, namespace and name.
func Key(o Object) string {
	return fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
}

// Changes returns the writes that turn the shown objects into the wanted ones: first the
// wanted objects in their order, then deletions. Objects whose key is in skip are not
// written, and of two wanted objects with one key only the first is. The result never
// shares an object with shown.
func Changes(shown map[string]Object, want []Object, skip map[string]bool) []Change {
	var changes []Change
	wanted := map[string]bool{}
	for _, o := range want {
		key := Key(o)
		if wanted[key] {
			continue // a second write would start from a version that the first has replaced
		}
		wanted[key] = true
		old, found := shown[key]
		switch {
		case skip[key]:
		case !found:
			changes = append(changes, Change{Create, o})
		default:
			if next := nextVersion(old, o); !equal(old, next) {
				changes = append(changes, Change{Update, next})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(shown)) {
		if !wanted[key] && !skip[key] {
			changes = append(changes, Change{Delete, shown[key]})
		}
	}
	return changes
}

// nextVersion returns the wanted object as the next version of the shown one. Conditions whose
// status is unchanged keep their transition time. The owner stays while no other is known:
// an object without an owner would never be garbage-collected.
func nextVersion(shown, want Object) Object {
	next := want.DeepCopyObject().(Object)
	next.SetResourceVersion(shown.GetResourceVersion())
	if len(next.GetOwnerReferences()) == 0 {
		next.SetOwnerReferences(shown.GetOwnerReferences())
	}
	switch was := shown.(type) {
	case *v1alpha1.IPReservation:
		keepUntil(&was.Status, &next.(*v1alpha1.IPReservation).Status)
	case *v1alpha1.NodeIPPool:
		keepTimes(was.Status.Conditions, next.(*v1alpha1.NodeIPPool).Status.Conditions)
	}
	return next
}

// sameUntil is by how much the end of a reservation may differ without a write. The end is computed again
// each time, because a step of the wall clock moves no deadline and so moves its time.
const sameUntil = 5 * time.Second

func keepUntil(was, next *v1alpha1.IPReservationStatus) {
	if was.Until != nil && next.Until != nil && next.Until.Sub(was.Until.Time).Abs() < sameUntil {
		next.Until = was.Until
	}
}

func keepTimes(was, next []metav1.Condition) {
	for i := range next {
		before := meta.FindStatusCondition(was, next[i].Type)
		if before != nil && before.Status == next[i].Status {
			next[i].LastTransitionTime = before.LastTransitionTime
		}
	}
}

// equal compares what the agent writes: status and owner.
func equal(a, b Object) bool {
	return apiequality.Semantic.DeepEqual(statusOf(a), statusOf(b)) &&
		apiequality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

func statusOf(o Object) any {
	switch o := o.(type) {
	case *v1alpha1.IPReservation:
		return o.Status
	case *v1alpha1.NodeIPPool:
		return o.Status
	}
	return nil
}
