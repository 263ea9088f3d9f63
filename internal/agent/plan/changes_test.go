package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

type change = func(*v1alpha1.IPReservation)

// mirrored returns the IPReservation of an attached pod.
func mirrored(pod string, changes ...change) plan.Object {
	o := &v1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod},
		Status:     v1alpha1.IPReservationStatus{Pod: pod, State: v1alpha1.IPAttached},
	}
	for _, c := range changes {
		c(o)
	}
	return o
}

func reservedState(o *v1alpha1.IPReservation) { o.Status.State = v1alpha1.IPReserved }
func version7(o *v1alpha1.IPReservation)      { o.ResourceVersion = "7" }

// endsIn returns a change to a reservation that ends after a time.
func endsIn(d time.Duration) change {
	return func(o *v1alpha1.IPReservation) {
		o.Status.State, o.Status.Until = v1alpha1.IPReserved, &metav1.Time{Time: now.Wall.Add(d)}
	}
}

func oldLeft(o *v1alpha1.IPReservation) { o.Status.Left = "9m" }

func ownedBy(uid types.UID) change {
	return func(o *v1alpha1.IPReservation) {
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: uid}}
	}
}

// pool returns a NodeIPPool with a condition since a time.
func pool(attached int64, exhausted metav1.ConditionStatus, since time.Time) plan.Object {
	return &v1alpha1.NodeIPPool{
		ObjectMeta: metav1.ObjectMeta{Name: "n1.net"},
		Status: v1alpha1.NodeIPPoolStatus{Attached: attached, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionExhausted, Status: exhausted, LastTransitionTime: metav1.NewTime(since)},
		}},
	}
}

func TestChanges(t *testing.T) {
	earlier, later := now.Wall.Add(-time.Hour), now.Wall
	for name, tc := range map[string]struct {
		shown, wanted []plan.Object
		skip          string
		want          []plan.Change
	}{
		"a new object is created": {
			wanted: []plan.Object{mirrored("web-0")},
			want:   []plan.Change{{Verb: plan.Create, Object: mirrored("web-0")}},
		},
		"an object that is shown already is not written": {
			shown:  []plan.Object{mirrored("web-0", version7)},
			wanted: []plan.Object{mirrored("web-0")},
		},
		"a changed status is updated, from the shown version": {
			shown:  []plan.Object{mirrored("web-0", version7)},
			wanted: []plan.Object{mirrored("web-0", reservedState)},
			want:   []plan.Change{{Verb: plan.Update, Object: mirrored("web-0", version7, reservedState)}},
		},
		"of two objects with one key the first is written": {
			wanted: []plan.Object{mirrored("web-0"), mirrored("web-0", reservedState)},
			want:   []plan.Change{{Verb: plan.Create, Object: mirrored("web-0")}},
		},
		"objects that are not wanted any more are deleted last": {
			shown:  []plan.Object{mirrored("web-1"), mirrored("web-0")},
			wanted: []plan.Object{mirrored("web-2")},
			want: []plan.Change{
				{Verb: plan.Create, Object: mirrored("web-2")},
				{Verb: plan.Delete, Object: mirrored("web-0")},
				{Verb: plan.Delete, Object: mirrored("web-1")},
			},
		},
		"an object of a namespace that is gone is skipped": {
			wanted: []plan.Object{mirrored("web-0"), mirrored("web-1")},
			skip:   plan.Key(mirrored("web-0")),
			want:   []plan.Change{{Verb: plan.Create, Object: mirrored("web-1")}},
		},
		"an object that waits is neither written nor deleted": {
			shown: []plan.Object{mirrored("web-0")},
			skip:  plan.Key(mirrored("web-0")),
		},
		"a reservation whose end is reckoned a second later is not written": {
			shown:  []plan.Object{mirrored("web-0", endsIn(time.Minute))},
			wanted: []plan.Object{mirrored("web-0", endsIn(time.Minute+time.Second))},
		},
		"a reservation that ends at another time, after a step of the wall clock, is": {
			shown:  []plan.Object{mirrored("web-0", endsIn(time.Minute))},
			wanted: []plan.Object{mirrored("web-0", endsIn(time.Hour))},
			want:   []plan.Change{{Verb: plan.Update, Object: mirrored("web-0", endsIn(time.Hour))}},
		},
		"the remaining time that an earlier agent wrote is removed, once": {
			shown:  []plan.Object{mirrored("web-0", version7, endsIn(time.Minute), oldLeft)},
			wanted: []plan.Object{mirrored("web-0", endsIn(time.Minute))},
			want:   []plan.Change{{Verb: plan.Update, Object: mirrored("web-0", version7, endsIn(time.Minute))}},
		},
		"the owner stays while the Node is not known": {
			shown:  []plan.Object{mirrored("web-0", ownedBy("u1"))},
			wanted: []plan.Object{mirrored("web-0")},
		},
		"the owner is replaced when the node has joined again": {
			shown:  []plan.Object{mirrored("web-0", version7, ownedBy("u1"))},
			wanted: []plan.Object{mirrored("web-0", ownedBy("u2"))},
			want:   []plan.Change{{Verb: plan.Update, Object: mirrored("web-0", version7, ownedBy("u2"))}},
		},
		"a condition with the same status keeps its time, and needs no write": {
			shown:  []plan.Object{pool(1, metav1.ConditionFalse, earlier)},
			wanted: []plan.Object{pool(1, metav1.ConditionFalse, later)},
		},
		"a condition with the same status keeps its time in an update": {
			shown:  []plan.Object{pool(1, metav1.ConditionFalse, earlier)},
			wanted: []plan.Object{pool(2, metav1.ConditionFalse, later)},
			want:   []plan.Change{{Verb: plan.Update, Object: pool(2, metav1.ConditionFalse, earlier)}},
		},
		"a condition with another status gets the new time": {
			shown:  []plan.Object{pool(1, metav1.ConditionFalse, earlier)},
			wanted: []plan.Object{pool(1, metav1.ConditionTrue, later)},
			want:   []plan.Change{{Verb: plan.Update, Object: pool(1, metav1.ConditionTrue, later)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			shown := map[string]plan.Object{}
			for _, o := range tc.shown {
				shown[plan.Key(o)] = o
			}
			got := plan.Changes(shown, tc.wanted, map[string]bool{tc.skip: true})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
