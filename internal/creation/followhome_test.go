package creation_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// A pod that follows was a guest. It goes home, also where the range of its address is not in the Node.
func TestAGuestGoesHomeToARangeOfTheNodeNetwork(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	env.AsControllerWithNetworks(t)
	home, away := putNode(t), putNode(t)
	settings := &limpetv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: limpetv1alpha1.NodeNetworkName}}
	settings.Spec.Ranges = []limpetv1alpha1.NodeRange{{Node: home.Name, CIDR: "10.199.1.0/24"}}
	set := testenv.AStatefulSet("web", 1).In(env.Namespace(t))
	state := testenv.APersistentPodState("web").In(set.Namespace).Prefers(100, hostname).PersistentPodState
	state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": recordedOn(away, "10.199.1.9")}
	env.Create(t, settings)
	put(t, set.StatefulSet, state, testenv.AReservation(formerOn(set, home, "10.199.1.9"), time.Now()), testenv.AReservation(formerOn(set, away, "10.199.1.9"), time.Now()))
	pod := admitted(t, nextOf(set).With(reservation.ModeAnnotation, reservation.Follow.String()).Pod)
	annotated(t, pod, map[string]string{pin.AnnotationNode: home.Name})
}
