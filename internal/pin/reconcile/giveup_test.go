package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// givenUp shows that the pod has ended, and that its user gives the reservation up.
func givenUp(t *testing.T, r *limpetv1alpha1.IPReservation) {
	t.Helper()
	reserve(t, r, time.Now().Add(time.Hour))
	env.Read(t, client.ObjectKeyFromObject(r), r)
	env.Patch(t, r, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, limpetv1alpha1.LabelRelease, r.Status.Releases()))
}

// TestAPodWhoseAddressWasGivenUpHasLostNothing gives a reservation up. Its object is gone, and another leader is there,
// when the pod returns with another address. The life after that is judged as any other.
func TestAPodWhoseAddressWasGivenUpHasLostNothing(t *testing.T) {
	node, set := env.Node(t), preferring(t)
	first := newManager(t)
	stop := first.start(t, first.recorder())
	pod := running(t, set, node.Name, "10.0.1.5")
	r := held(t, pod)
	env.Known(t, knows, &corev1.NodeList{}, &appsv1beta1.PersistentPodStateList{}) // a mark is looked at once
	env.Remove(t, pod)
	givenUp(t, r)
	testenv.Eventually(t, func() error {
		if record := env.MustState(t, set).Status.PodStates[pod.Name]; record.GivenUpUID != pod.UID {
			return fmt.Errorf("record %+v", record)
		}
		return nil
	})
	env.Remove(t, r)
	stop()

	startRecorder(t)
	back := running(t, set, node.Name, "10.0.1.6")
	rebuilds := env.MustState(t, set).Status.Rebuilds
	if rebuilds == nil || rebuilds.Kept != 1 || rebuilds.Lost != 0 || rebuilds.Last.Message != "the node is the same; a user gave the address up" {
		t.Errorf("rebuilds %+v, want one Kept", rebuilds)
	}
	if n := env.CountEvents(t, back, string(appsv1beta1.Lost)); n != 0 {
		t.Errorf("%d events %s", n, appsv1beta1.Lost)
	}
	env.Remove(t, back)
	running(t, set, node.Name, "10.0.1.7")
	if rebuilds := env.MustState(t, set).Status.Rebuilds; rebuilds.Lost != 1 {
		t.Errorf("rebuilds %+v, want the next one Lost", rebuilds)
	}
}

// TestAMarkQuietsNoOtherPod sets the label where it means no reservation of the recorded pod: in another namespace,
// with another end, of another life, and on an object that its Node does not own.
func TestAMarkQuietsNoOtherPod(t *testing.T) {
	node, set := env.Node(t), preferring(t)
	startRecorder(t)
	pod := running(t, set, node.Name, "10.0.1.5")
	foreign := pod.DeepCopy()
	foreign.Namespace = env.Namespace(t)
	former := pod.DeepCopy()
	former.UID = "former"
	forged := testenv.AReservation(pod, time.Now())
	forged.Name, forged.OwnerReferences = "forged", []metav1.OwnerReference{}
	wrong := testenv.AReservation(pod, time.Now())
	wrong.Name, wrong.Labels = "wrong", map[string]string{limpetv1alpha1.LabelRelease: "20200101T000000Z"}
	env.Create(t, forged, wrong)
	env.Remove(t, pod)
	for _, r := range []*limpetv1alpha1.IPReservation{held(t, foreign), held(t, former), forged} {
		givenUp(t, r)
	}
	other := testenv.APod("web-1").In(set.Namespace).OwnedBy(set.StatefulSet).On(node.Name).At("10.0.1.8").Ready().Pod
	env.Create(t, other) // its record tells that the recorder has seen more than the marks
	env.RecordedOn(t, set, map[string]string{pod.Name: node.Name, other.Name: node.Name})
	running(t, set, node.Name, "10.0.1.6")
	if rebuilds := env.MustState(t, set).Status.Rebuilds; rebuilds == nil || rebuilds.Lost != 1 {
		t.Errorf("rebuilds %+v, want one Lost", rebuilds)
	}
}

// TestAReservationThatWasGivenUpIsTold tells what users gave up on the StatefulSet, in one event.
func TestAReservationThatWasGivenUpIsTold(t *testing.T) {
	home, set := env.Node(t), preferring(t)
	var shown []*limpetv1alpha1.IPReservation
	for i := range 2 {
		pod := testenv.APod(fmt.Sprint("web-", i)).In(set.Namespace).On(home.Name).At(fmt.Sprint("10.0.1.", 5+i)).Pod
		pod.UID = "ended"
		shown = append(shown, held(t, pod))
	}
	for _, r := range shown {
		givenUp(t, r)
	}
	m := startTelling(t)
	for _, r := range shown {
		env.Remove(t, r)
	}
	m.waiting(t, 2)
	m.pass(pin.UsualPace.Ended)
	env.Told(t, set.StatefulSet, pin.ReasonGivenUp, "users gave up 2 reservations: web-")
	env.ToldOnce(t, set.StatefulSet, pin.ReasonGivenUp)
}
