package pin

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/fit"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Follows reports whether the address of a pod goes along to other nodes.
func Follows(pod *corev1.Pod) bool {
	return pod.Annotations[reservation.ModeAnnotation] == reservation.Follow.String()
}

// AddressHome returns the node to which a pod that follows goes home: its ranges have the recorded address, and it shows that
// it keeps it; nil for none.
func AddressHome(record appsv1beta1.PodState, holders []Holder, nodes map[string]*corev1.Node) *corev1.Node {
	for _, h := range holders {
		if node := nodes[h.Node]; node != nil && sameIPs(h.IPs, record.IPs) {
			if _, all := fit.Owns(node, h.IPs); all {
				return node
			}
		}
	}
	return nil
}

// AtAddressHome returns the state as if a pod that follows had run at the home of its address, if that can take the pod. Else
// it returns the state itself: the pod goes where its address is, or anywhere, and takes it along.
func AtAddressHome(s *appsv1beta1.PersistentPodState, pod *corev1.Pod, holders []Holder, nodes map[string]*corev1.Node) *appsv1beta1.PersistentPodState {
	home := AddressHome(s.Status.PodStates[pod.Name], holders, nodes)
	if home == nil || home.Name == RecordedNode(s, pod.Name) || obstructed(home, pod) || !fit.Ready(home) {
		return s
	}
	return RestoreRecord(s, pod.Name, home, holders)
}
