package pin_test

import (
	"testing"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// A pod with hostNetwork needs no address of a pool.
func TestAPodOfTheHostNetworkIsJudgedByNoPool(t *testing.T) {
	full := []limpetv1alpha1.NodeIPPool{{Status: limpetv1alpha1.NodeIPPoolStatus{Node: "n1", Ranges: []string{"10.0.1.2-10.0.1.9"}, Total: 8}}}
	pod := testenv.APod("web-0").Pod
	pod.Spec.HostNetwork = true
	state := testenv.APersistentPodState("web").Prefers(100, hostname).Recorded("web-0", "n1", home).PersistentPodState
	if got := pin.Plan(pin.Input{Pod: pod, State: state, Node: testenv.ANode("n1").Node, Pools: full}); got.Reason != pin.ReasonPinned {
		t.Errorf("reason %s (%s), want %s", got.Reason, got.Message, pin.ReasonPinned)
	}
}

// A pool that the pod's addresses are not of does not keep it from its node.
func TestPlanAsksThePoolsOfThePod(t *testing.T) {
	pool := func(total, free int64, ranges ...string) limpetv1alpha1.NodeIPPool {
		return limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{Node: "n1", Ranges: ranges, Total: total, Free: free}}
	}
	const own, two, six, foreign = "10.0.1.2-10.0.1.254", "10.0.0.2-10.0.0.9,10.0.1.2-10.0.1.9", "fd00::2-fd00::ff", "192.168.7.2-192.168.7.5"
	cases := map[string]struct {
		ips   string
		pools []limpetv1alpha1.NodeIPPool
		want  string
	}{
		"a foreign pool is exhausted":                      {"10.0.1.5", []limpetv1alpha1.NodeIPPool{pool(250, 200, own), pool(4, 0, foreign)}, pin.ReasonPinned},
		"its own pool is, and a foreign one not":           {"10.0.1.5", []limpetv1alpha1.NodeIPPool{pool(250, 0, own), pool(4, 4, foreign)}, pin.ReasonNodeOutOfIPs},
		"the second range of a set is its own":             {"10.0.1.5", []limpetv1alpha1.NodeIPPool{pool(4, 4, foreign), pool(16, 0, two)}, pin.ReasonNodeOutOfIPs},
		"one of two families is":                           {"10.0.1.5,fd00::5", []limpetv1alpha1.NodeIPPool{pool(250, 200, own), pool(254, 0, six)}, pin.ReasonNodeOutOfIPs},
		"the addresses are of none, and one has some left": {"172.16.0.1", []limpetv1alpha1.NodeIPPool{pool(250, 200, own), pool(4, 0, foreign)}, pin.ReasonPinned},
		"the addresses are of none, and none has any left": {"172.16.0.1", []limpetv1alpha1.NodeIPPool{pool(250, 0, own), pool(4, 0, foreign)}, pin.ReasonNodeOutOfIPs},
		"no addresses are recorded, and one has some left": {"", []limpetv1alpha1.NodeIPPool{pool(250, 200, own), pool(4, 0, foreign)}, pin.ReasonPinned},
		"the ranges are not known":                         {"10.0.1.5", []limpetv1alpha1.NodeIPPool{pool(0, 0)}, pin.ReasonPinned},
		"a pool says what cannot be read":                  {"10.0.1.5", []limpetv1alpha1.NodeIPPool{pool(250, 200, "all"), pool(4, 0, foreign)}, pin.ReasonPinned},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Prefers(100, hostname).Recorded("web-0", "n1", home)
			record := state.Status.PodStates["web-0"]
			record.IPs = tc.ips
			state.Status.PodStates["web-0"] = record
			got := pin.Plan(pin.Input{
				Pod: testenv.APod("web-0").Pod, State: state.PersistentPodState, Node: testenv.ANode("n1").Node, Pools: tc.pools, Retains: true,
			})
			if got.Reason != tc.want {
				t.Errorf("reason %s (%s), want %s", got.Reason, got.Message, tc.want)
			}
		})
	}
}
