package console_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestPlacementIsThatOfTheWebhook has a record that something else overrules when the pod is made again.
func TestPlacementIsThatOfTheWebhook(t *testing.T) {
	recorded := metav1.NewTime(now.Add(-time.Hour))
	tests := map[string]struct {
		change func(pod *corev1.Pod, s *appsv1beta1.PersistentPodState, nodes []corev1.Node)
		held   string // node that holds the addresses of the pod, as it has them
		want   string
	}{
		"the recorded node": {want: "the pod returns to node n1"},
		"the node of a later life": {held: "n2", want: "the pod returns to node n2", change: func(pod *corev1.Pod, s *appsv1beta1.PersistentPodState, _ []corev1.Node) {
			pod.UID, pod.CreationTimestamp = "later", metav1.NewTime(now.Add(-time.Minute))
		}},
		"a node on which no replica saw the pod": {held: "n3", want: "the pod returns to node n1", change: func(pod *corev1.Pod, s *appsv1beta1.PersistentPodState, _ []corev1.Node) {
			pod.UID, pod.CreationTimestamp = "later", metav1.NewTime(now.Add(-time.Minute))
		}},
		"home": {held: "n3", want: "the pod returns to node n3", change: func(pod *corev1.Pod, s *appsv1beta1.PersistentPodState, _ []corev1.Node) {
			s.Annotations = map[string]string{pin.AnnotationReturnAfter: "1m"}
			record := s.Status.PodStates[pod.Name]
			record.Home = &appsv1beta1.Home{NodeName: "n3", NodeTopologyLabels: map[string]string{corev1.LabelHostname: "n3"}, UID: pod.UID, Until: metav1.NewTime(now.Add(time.Hour))}
			s.Status.PodStates[pod.Name] = record
		}},
		"the home of the address": {held: "n3", want: "the pod returns to node n3", change: func(pod *corev1.Pod, s *appsv1beta1.PersistentPodState, nodes []corev1.Node) {
			pod.Annotations[reservation.ModeAnnotation] = reservation.Follow.String()
			nodes[2].Spec.PodCIDRs = []string{"10.0.3.0/24"}
		}},
		"where the owner's address is": {held: "n2", want: "the pod returns to node n2", change: func(pod *corev1.Pod, s *appsv1beta1.PersistentPodState, _ []corev1.Node) {
			pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].Name = "ReplicaSet", "web-5f"
			pod.Annotations[reservation.OwnerAnnotation] = "apps/Deployment/web/main"
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := testenv.APod("web-0").In("shop").On("n2").At("10.0.3.2").OwnedBy(testenv.AStatefulSet("web", 1).In("shop").StatefulSet).
				With(reservation.RetainAnnotation, "10").Ready()
			pod.UID = "life"
			s := testenv.APersistentPodState("web").In("shop").Prefers(100, corev1.LabelHostname).Recorded("web-0", "n1", map[string]string{corev1.LabelHostname: "n1"})
			record := s.Status.PodStates["web-0"]
			record.RecordedAt, record.IPs = &recorded, "10.0.3.2"
			s.Status.PodStates["web-0"] = record
			f := &facts.Facts{Now: now}
			for _, n := range []string{"n1", "n2", "n3"} {
				f.Nodes = append(f.Nodes, *testenv.ANode(n).Labelled(corev1.LabelHostname, n).Node)
			}
			if tc.change != nil {
				tc.change(pod.Pod, s.PersistentPodState, f.Nodes)
			}
			if tc.held != "" {
				at := pod.DeepCopy()
				at.Spec.NodeName, at.Name = tc.held, reservation.OwnerName(pod.Name, pod.Annotations)
				f.Reservations = []limpetv1alpha1.IPReservation{*testenv.AReservation(at, now)}
			}
			f.Pods, f.States = []corev1.Pod{*pod.Pod}, []appsv1beta1.PersistentPodState{*s.PersistentPodState}
			e := console.Placement(f, &f.Pods[0])
			if e.Answer != tc.want || tc.held != "" && !strings.Contains(strings.Join(e.Because, "\n"), "node "+tc.held+" holds 10.0.3.2") {
				t.Errorf("%+v, want %q", e, tc.want)
			}
		})
	}
}
