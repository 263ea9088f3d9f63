package pin_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestAtAddressHome sends a pod that follows home while home can take it. Home keeps the recorded address, which is one of
// its own: neither what another node shows nor another address draws the pod.
func TestAtAddressHome(t *testing.T) {
	const ips = "10.0.1.5,fd00::5"
	node := func(name string, cidrs ...string) *corev1.Node {
		n := testenv.ANode(name)
		n.Spec.PodCIDRs = append(cidrs, "fd00::/64")[:2]
		return n.Node
	}
	cordoned := node("home", "10.0.1.0/24")
	cordoned.Spec.Unschedulable = true
	away := node("away", "10.0.2.0/24")
	for name, tc := range map[string]struct {
		home    *corev1.Node
		holders []pin.Holder
		want    string
	}{
		"home can take it":                      {node("home", "10.0.1.0/24"), []pin.Holder{{Node: "away", IPs: ips}, {Node: "home", IPs: ips}}, "home"},
		"home shows them in another order":      {node("home", "10.0.1.0/24"), []pin.Holder{{Node: "home", IPs: "fd00::5,10.0.1.5"}}, "home"},
		"home cannot take it":                   {cordoned, []pin.Holder{{Node: "home", IPs: ips}}, "away"},
		"home keeps nothing":                    {node("home", "10.0.1.0/24"), []pin.Holder{{Node: "away", IPs: ips}}, "away"},
		"home keeps another address":            {node("home", "10.0.1.0/24"), []pin.Holder{{Node: "home", IPs: "10.0.1.6"}}, "away"},
		"another node has one of them":          {node("home", "10.0.1.0/24", "fd00:1::/64"), []pin.Holder{{Node: "home", IPs: ips}}, "away"},
		"a node shows an address of another":    {node("home", "10.0.3.0/24"), []pin.Holder{{Node: "home", IPs: ips}}, "away"},
		"what a node shows cannot be read":      {node("home", "10.0.1.0/24"), []pin.Holder{{Node: "home", IPs: "x"}}, "away"},
		"the node that shows it does not exist": {away, []pin.Holder{{Node: "home", IPs: ips}}, "away"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testenv.APod("web-0").With(reservation.ModeAnnotation, "follow").Pod
			s := testenv.APersistentPodState("web").Prefers(1, corev1.LabelHostname).Recorded("web-0", "away", nil).PersistentPodState
			record := s.Status.PodStates["web-0"]
			record.IPs = ips
			s.Status.PodStates["web-0"] = record
			got := pin.AtAddressHome(s, pod, tc.holders, map[string]*corev1.Node{tc.home.Name: tc.home, "away": away})
			if at := pin.RecordedNode(got, "web-0"); at != tc.want || !pin.Follows(pod) {
				t.Errorf("the pod goes to %s, want %s", at, tc.want)
			}
		})
	}
}
