package reconcile_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// ownedPod begins a pod without a controller that asks for an owner.
func ownedPod(ns, name, owner string) testenv.Pod {
	return testenv.APod(name).In(ns).With(reservation.KeepAnnotation, "10m").With(reservation.OwnerAnnotation, owner)
}

// A pod of an owner is nominated to the node that holds the owner's addresses. A pod that its user sends elsewhere is not,
// nor is one that has not the owner.
func TestAPodOfAnOwnerIsNominated(t *testing.T) {
	m := newManager(t)
	m.start(t, m.nominator())
	home, other, ns := env.Node(t), env.Node(t), env.Namespace(t)
	last := testenv.APod("a").In(ns).On(home.Name).At("10.0.1.5").Pod
	last.UID = "life"
	shown := testenv.AReservation(last, time.Now())
	shown.Status.Pod = "///db"
	env.Create(t, shown)
	gated := func(name, owner, node string) *corev1.Pod {
		return create(t, ownedPod(ns, name, owner).With(pin.AnnotationNode, node).Gated(pin.Gate))
	}
	opened(t, gated("b", "///db", home.Name), home.Name)
	opened(t, gated("c", "///db", other.Name), "")
	opened(t, gated("d", "db", home.Name), "")
}

// A pod that has not the addresses of its owner has an event that says why. The pod that has them has none.
func TestAPodThatIsNotTheOwnerIsTold(t *testing.T) {
	home, ns := env.Node(t), env.Namespace(t)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gone", UID: "u"}}
	m := startTelling(t)
	first := ownedPod(ns, "a", "///db").On(home.Name).At("10.0.1.5").Ready().Pod
	second := ownedPod(ns, "b", "db").On(home.Name).At("10.0.1.6").Ready().Pod
	forged := testenv.APod("gone-1").Of(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")).With(reservation.KeepAnnotation, "10m").
		With(reservation.OwnerAnnotation, "db").On(home.Name).At("10.0.1.7").Ready().Pod
	env.Create(t, first)
	cachedAt(t, m, first)
	env.Create(t, second, forged)
	m.waiting(t, 2)
	m.pass(pin.UsualPace.Returned)
	env.Told(t, second, pin.ReasonNotOwner, "pod b has 10.0.1.6 on node "+home.Name+", which is not kept for its owner: pod a lives; remedy: one replica, and the strategy Recreate or maxSurge: 0")
	env.Told(t, forged, pin.ReasonNotOwner, "pod gone-1 has 10.0.1.7 on node "+home.Name+", which is not kept for its owner: "+
		"no controller answered when the pod was created, or its own does not exist; remedy: delete the pod")
	if n := env.CountEvents(t, first, pin.ReasonNotOwner); n != 0 {
		t.Errorf("the first pod has %d events", n)
	}
}
