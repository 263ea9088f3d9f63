package plan_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestAnInventedAddressHarmsOneRange has the kubelet of n2 write internal IPs in ranges of n1. All other settings of n1
// are applied, and a range that n1 has already stays.
func TestAnInventedAddressHarmsOneRange(t *testing.T) {
	invent := func(addresses ...string) func(*plan.OwnNetworkInput) {
		return func(in *plan.OwnNetworkInput) {
			i := slices.IndexFunc(in.Nodes, func(n corev1.Node) bool { return n.Name == "n2" })
			in.Nodes[i].Status.Addresses = nil
			for _, a := range addresses {
				in.Nodes[i].Status.Addresses = append(in.Nodes[i].Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
			}
		}
	}
	for name, tc := range map[string]struct {
		ranges  []string
		invents []string
		applied []string
		mtu     float64 // 0: the node keeps what it had
		sets    string
		status  metav1.ConditionStatus
		words   string
	}{
		"a new further range is left out": {
			ranges: []string{"n1 Further 10.200.1.0/24", "n1 Further 10.200.3.0/24"}, invents: []string{"10.200.1.9"},
			mtu: 1400, sets: "10.1.1.0/24, 10.200.3.0/24; fd01:1::/64", status: metav1.ConditionFalse, words: "all settings but 1 are applied: range 10.200.1.0/24 of node n1 shares addresses with 10.200.1.9/32 of node n2",
		},
		"a range that the node has stays": {
			ranges: []string{"n1 Further 10.200.1.0/24"}, invents: []string{"10.200.1.9"}, applied: []string{"10.200.1.0/24"},
			mtu: 1400, sets: "10.1.1.0/24, 10.200.1.0/24; fd01:1::/64", status: metav1.ConditionTrue, words: "which came later",
		},
		"one that stands for the pod CIDR as well": {
			ranges: []string{"n1 Instead 10.200.1.0/24"}, invents: []string{"10.200.1.9"}, applied: []string{"10.200.1.0/24"},
			mtu: 1400, sets: "10.200.1.0/24; fd01:1::/64", status: metav1.ConditionTrue, words: "which came later",
		},
		"a new one of those waits": {
			ranges: []string{"n1 Instead 10.200.1.0/24"}, invents: []string{"10.200.1.9"}, status: metav1.ConditionFalse, words: "Remedy",
		},
		"one address of each family counts": {
			ranges: []string{"n1 Further 10.200.1.0/24", "n1 Further 10.200.3.0/24", "n1 Further fd02::/64"}, invents: []string{"10.200.1.9", "10.200.3.9", "fd02::9"},
			mtu: 1400, sets: "10.1.1.0/24, 10.200.3.0/24; fd01:1::/64", status: metav1.ConditionFalse, words: "all settings but 2 are applied",
		},
		"a retired range gives no addresses": {
			ranges: []string{"n1 Retired 10.200.1.0/24"}, invents: []string{"10.200.1.9"}, mtu: 1400, sets: "10.1.1.0/24; fd01:1::/64", status: metav1.ConditionTrue,
		},
		"its own range": {
			ranges: []string{"n2 Further 10.200.1.0/24"}, invents: []string{"10.200.1.9"}, mtu: 1400, sets: "10.1.1.0/24; fd01:1::/64", status: metav1.ConditionTrue,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(v1alpha1.NodeNetworkSpec{MTU: 1400, Ranges: ranges(tc.ranges...)}, invent(tc.invents...), func(in *plan.OwnNetworkInput) {
				in.Current = conflistOf(tc.applied...)
			})
			if c := d.Configured; c.Status != tc.status || !strings.Contains(c.Message, tc.words) || c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonSharedAddresses {
				t.Errorf("condition %+v, want %s and %q", c, tc.status, tc.words)
			}
			if tc.mtu == 0 {
				if d.Conflist != nil {
					t.Errorf("network configuration %s", d.Conflist)
				}
				return
			}
			if mtu, sets := written(t, d.Conflist); mtu != tc.mtu || sets != tc.sets {
				t.Errorf("MTU %v, ranges %s; want %v, %s", mtu, sets, tc.mtu, tc.sets)
			}
		})
	}
}

// TestWithoutAnAnswer decides while the API server does not tell whether there is a NodeNetwork. No route goes.
func TestWithoutAnAnswer(t *testing.T) {
	record := &plan.NodeNetwork{Spec: v1alpha1.NodeNetworkSpec{MTU: 1400}, Generation: 3}
	for name, tc := range map[string]struct {
		record          *plan.NodeNetwork
		waited, conf    bool
		writes, tells   bool
		reason, failure string
	}{
		"a new node waits":                              {failure: "has not told"},
		"a new node has waited":                         {waited: true, writes: true, tells: true},
		"a node that lost its record keeps what it has": {waited: true, conf: true, failure: "has not told", tells: true},
		"a node with a record":                          {record: record, writes: true},
		"a node with a record has waited":               {record: record, waited: true, writes: true, tells: true, reason: v1alpha1.ReasonApplied},
	} {
		t.Run(name, func(t *testing.T) {
			old := []plan.Route{via("10.200.2.0/24", "192.0.2.2"), via("fd02::/64", "2001:db8::2")}
			d := decide(v1alpha1.NodeNetworkSpec{}, func(in *plan.OwnNetworkInput) {
				in.Settings, in.Untold, in.Waited, in.Have = tc.record, true, tc.waited, old
				if tc.conf {
					in.Current = []byte("{}")
				}
			})
			if (d.Conflist != nil) != tc.writes || d.Told != tc.tells || (d.Err != nil) != (tc.failure != "") || d.Err != nil && !strings.Contains(d.Err.Error(), tc.failure) {
				t.Errorf("writes %t, tells %t, error %v", d.Conflist != nil, d.Told, d.Err)
			}
			if tc.reason != "" && d.Configured.Reason != tc.reason {
				t.Errorf("condition %+v", d.Configured)
			}
			if len(d.Routes) <= len(old) {
				t.Error("routes wait")
			}
			if c := plan.RouteChanges(old, d.Routes); len(c.Remove) > 0 {
				t.Errorf("removes %v", c.Remove)
			}
		})
	}
}
