package creation_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// A pod had to leave its node, and is rebuilt. It returns where its user asks for that and the node
// keeps its addresses, and stays where it is otherwise.
func TestAPodThatHadToLeaveItsNodeReturns(t *testing.T) {
	cases := map[string]struct {
		asks, held bool
	}{
		"its user asks, and its address is kept":  {true, true},
		"its user does not ask":                   {false, true},
		"its user asks, and its address is freed": {true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			home, other := putNode(t), putNode(t)
			set := testenv.AStatefulSet("web", 2).In(env.Namespace(t))
			former := formerOn(set, home, "10.0.1.9")
			record := recordedOn(other, "10.0.2.9")
			record.RecordedAt = &metav1.Time{Time: time.Now()}
			record.FormerUIDs = append(record.FormerUIDs, former.UID)
			record.Home = &appsv1beta1.Home{
				NodeName: home.Name, NodeTopologyLabels: map[string]string{hostname: home.Name}, UID: former.UID, IPs: "10.0.1.9",
				Until: metav1.NewTime(time.Now().Add(time.Hour)),
			}
			state := testenv.APersistentPodState("web").In(set.Namespace).Prefers(100, hostname).PersistentPodState
			state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": record}
			want := other.Name
			if tc.asks {
				state.Annotations = map[string]string{pin.AnnotationReturnAfter: "5m"}
			}
			if tc.asks && tc.held {
				want = home.Name
			}
			put(t, set.StatefulSet, state)
			if tc.held {
				put(t, testenv.AReservation(former, time.Now()))
			}
			mark := ""
			if tc.asks {
				mark = home.Name
			}
			annotated(t, admitted(t, nextOf(set).Pod), map[string]string{
				pin.AnnotationNode: want, pin.AnnotationRecalled: "", pin.AnnotationMayReturn: mark,
			})
		})
	}
}
