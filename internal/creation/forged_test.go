package creation_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// The agent of a node shows a reservation for a pod of another tenant, in the name of its own
// node. The pod does not follow: it never ran there.
func TestAForgedReservationAttractsNoPod(t *testing.T) {
	home, thief := putNode(t), putNode(t)
	cases := map[string]struct {
		records map[string]appsv1beta1.PodState
		forge   func(*limpetv1alpha1.IPReservation)
		want    string // pinned node
	}{
		"of a pod that is recorded": {
			map[string]appsv1beta1.PodState{"web-0": recordedOn(home, "10.0.1.9")}, func(*limpetv1alpha1.IPReservation) {}, home.Name,
		},
		"of a pod that was never recorded": {nil, func(*limpetv1alpha1.IPReservation) {}, ""},
		"that names no life":               {nil, func(r *limpetv1alpha1.IPReservation) { r.Status.PodUID = "" }, ""},
		"that is attached": {
			nil, func(r *limpetv1alpha1.IPReservation) { r.Status.State, r.Status.Until = limpetv1alpha1.IPAttached, nil }, "",
		},
		"that begins in the future": {
			map[string]appsv1beta1.PodState{"web-0": recordedOn(home, "10.0.1.9")},
			func(r *limpetv1alpha1.IPReservation) { r.Status.Until = &metav1.Time{Time: time.Now().Add(time.Hour)} }, home.Name,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := putState(t, tc.records)
			forged := testenv.AReservation(formerOn(set, thief, "10.0.2.9"), time.Now())
			tc.forge(forged)
			put(t, forged)
			annotated(t, admitted(t, nextOf(set).Pod), map[string]string{pin.AnnotationNode: tc.want, pin.AnnotationRecalled: ""})
		})
	}
}

// A pod ran on two nodes. The agent of a third one knows the UID of one of these lives, and
// shows a reservation in its name.
func TestAForgedReservationOfARealLifeAttractsNoPod(t *testing.T) {
	node, thief := putNode(t), putNode(t)
	set := putState(t, nil)
	real := lived(t, nextOf(set).On(node.Name).At("10.0.2.9").Pod)
	forged := testenv.AReservation(formerOn(set, thief, "10.0.3.9"), time.Now().Add(time.Hour))
	forged.Status.PodUID = string(real.UID)
	put(t, testenv.AReservation(real, time.Now()), forged)
	annotated(t, admitted(t, nextOf(set).Pod), map[string]string{pin.AnnotationNode: node.Name, pin.AnnotationRecalled: node.Name})
}

// A pod has left a node, whose agent goes on to show a reservation for it, and a later one than
// any other. The pod does not come back.
func TestAFormerNodeAttractsNoPod(t *testing.T) {
	t.Run("that is recorded elsewhere", func(t *testing.T) {
		home, thief := putNode(t), putNode(t)
		set := testenv.AStatefulSet("web", 2).In(env.Namespace(t))
		former := lived(t, nextOf(set).On(thief.Name).At("10.0.2.9").Pod)
		record := recordedOn(home, "10.0.1.9")
		record.RecordedAt = &metav1.Time{Time: former.CreationTimestamp.Add(time.Minute)}
		putStateOf(t, set, map[string]appsv1beta1.PodState{"web-0": record})
		put(t, testenv.AReservation(former, time.Now().Add(time.Hour)))
		annotated(t, admitted(t, nextOf(set).Pod), map[string]string{pin.AnnotationNode: home.Name, pin.AnnotationRecalled: ""})
	})
	t.Run("that is recorded nowhere", func(t *testing.T) {
		home, thief := putNode(t), putNode(t)
		set := putState(t, nil)
		former := lived(t, nextOf(set).On(thief.Name).At("10.0.2.9").Pod)
		last := lived(t, nextOf(set).On(home.Name).At("10.0.1.9").Pod)
		put(t, testenv.AReservation(former, time.Now().Add(time.Hour)), testenv.AReservation(last, time.Now()))
		annotated(t, admitted(t, nextOf(set).Pod), map[string]string{pin.AnnotationNode: home.Name, pin.AnnotationRecalled: home.Name})
	})
}

// A pod lived twice on a node before it moved. The agent of that node shows a reservation for
// the earlier life, which is no former one in the record, and tells any time it likes.
func TestAnEarlierLifeOfAFormerNodeAttractsNoPod(t *testing.T) {
	home, thief := putNode(t), putNode(t)
	set := testenv.AStatefulSet("web", 2).In(env.Namespace(t))
	earlier := lived(t, nextOf(set).On(thief.Name).At("10.0.3.9").Pod)
	later := lived(t, nextOf(set).On(thief.Name).At("10.0.3.9").Pod)
	record := recordedOn(home, "10.0.1.9")
	record.RecordedAt = &metav1.Time{Time: time.Now().Add(-time.Minute)}
	record.FormerUIDs = []types.UID{later.UID}
	putStateOf(t, set, map[string]appsv1beta1.PodState{"web-0": record})
	put(t, testenv.AReservation(formerOn(set, home, "10.0.1.9"), time.Now()), testenv.AReservation(earlier, time.Now().Add(time.Hour)))
	annotated(t, admitted(t, nextOf(set).Pod), map[string]string{pin.AnnotationNode: home.Name, pin.AnnotationRecalled: ""})
}

// Where the policies are missing, an agent may write in the name of another node. An object
// that the live Node does not own is not believed.
func TestObjectsThatTheirNodeDoesNotOwnAreNotBelieved(t *testing.T) {
	node, other := putNode(t), putNode(t)
	owner := func(name, kind string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: uid}}
	}
	for name, owners := range map[string][]metav1.OwnerReference{
		"without an owner":               {},
		"owned by another Node":          owner(other.Name, "Node", other.UID),
		"owned by a Node that is gone":   owner(node.Name, "Node", "former"),
		"owned by a pod of the name":     owner(node.Name, "Pod", node.UID),
		"owned by the name of the other": owner(other.Name, "Node", node.UID),
	} {
		t.Run(name, func(t *testing.T) {
			set := putState(t, map[string]appsv1beta1.PodState{"web-0": recordedOn(node, "10.0.9.2")})
			pool := &limpetv1alpha1.NodeIPPool{
				ObjectMeta: metav1.ObjectMeta{Name: env.Name("forged"), OwnerReferences: owners},
				Status:     limpetv1alpha1.NodeIPPoolStatus{Node: node.Name, Network: "net", Total: 6, Attached: 6},
			}
			put(t, pool)
			annotated(t, admitted(t, nextOf(set).Pod), map[string]string{pin.AnnotationNode: node.Name, pin.AnnotationUnpinned: ""})
			env.Remove(t, pool)

			set = putState(t, nil)
			reservation := testenv.AReservation(lived(t, nextOf(set).On(node.Name).At("10.0.9.2").Pod), time.Now())
			reservation.OwnerReferences = owners
			put(t, reservation)
			annotated(t, admitted(t, nextOf(set).Pod), map[string]string{pin.AnnotationNode: "", pin.AnnotationRecalled: ""})
		})
	}
}
