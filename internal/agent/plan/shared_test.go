package plan_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

func TestFindShared(t *testing.T) {
	const ours = `"ipam":{"type":"limpet-ipam","sharedNetwork":true}`
	for name, tc := range map[string]struct{ conf, want string }{
		"macvlan":               {`{"cniVersion":"1.0.0","name":"lan","plugins":[{"type":"macvlan","master":"eth1",` + ours + `},{"type":"portmap"}]}`, "lan macvlan true"},
		"no list":               {`{"cniVersion":"1.0.0","name":"lan","type":"bridge",` + ours + `}`, "lan bridge true"},
		"without the key":       {`{"name":"lan","type":"bridge","ipam":{"type":"limpet-ipam"}}`, "lan  false"},
		"a key of another type": {`{"name":"lan","type":"bridge","ipam":{"type":"limpet-ipam","sharedNetwork":"true"}}`, "lan  false"},
		"of host-local":         {`{"name":"lan","type":"bridge","ipam":{"type":"host-local","sharedNetwork":true}}`, "  false"},
		"without a name":        {`{"type":"bridge",` + ours + `}`, "  false"},
	} {
		t.Run(name, func(t *testing.T) {
			c, is := plan.FindShared([]plan.ConfigFile{{Name: "10-lan.conflist", Data: []byte(tc.conf)}})
			if got := fmt.Sprint(c.Network, " ", c.Kind, " ", is); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if is && !strings.Contains(string(c.Conf), `"name":"lan"`) {
				t.Errorf("limpet-ipam reads %s", c.Conf)
			}
		})
	}
}

// TestFollowShared asks which ranges n1 has.
func TestFollowShared(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"beside the pod CIDRs":              {"10.9.1.2", "10.9.1.9", "[10.9.1.2/31 10.9.1.4/30 10.9.1.8/31] <nil>"},
		"in its own pod CIDR":               {"10.244.1.4", "10.244.1.7", "[10.244.1.4/30] <nil>"},
		"partly in that of another":         {"10.244.1.252", "10.244.2.3", "the range 10.244.1.252-10.244.2.3 of this node has addresses of the pod CIDR of 10.244.2.0/24 of node n2"},
		"around all":                        {"10.0.0.0", "10.255.255.255", "10.244.2.0/24 of node n2"},
		"of a family without any pod CIDRs": {"fd00::4", "fd00::7", "[fd00::4/126] <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []corev1.Node{withIPs("n1", "10.244.1.0/24", "192.0.2.1"), withIPs("n2", "10.244.2.0/24", "192.0.2.2")}
			sets := []ipam.Set{{{Start: netip.MustParseAddr(tc.from), End: netip.MustParseAddr(tc.to)}}}
			d, err := plan.FollowShared("n1", nodes, "lan", sets)
			if got := fmt.Sprint(d.Owns, " ", err); !strings.Contains(got, tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if len(d.Routes) != 0 {
				t.Errorf("routes %v", d.Routes)
			}
		})
	}
}

// TestASharedPoolIsShown has a network before and after its first pod.
func TestASharedPoolIsShown(t *testing.T) {
	d := plan.OwnNetworkDecision{Shared: "lan", Sets: []ipam.Set{{aRange("10.9.1.2", "10.9.1.9")}}}
	for name, networks := range map[string][]plan.Network{"before": nil, "after": {{Name: "lan", Sets: d.Sets}}} {
		var pools []string
		for _, o := range plan.Mirror("n1", plan.WithShared(networks, d), now) {
			s := o.(*v1alpha1.NodeIPPool).Status
			pools = append(pools, fmt.Sprint(s.Network, " ", s.SharedNetwork, " ", s.Ranges))
		}
		if got := fmt.Sprint(pools); got != "[lan true [10.9.1.2-10.9.1.9]]" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := plan.WithShared(nil, plan.OwnNetworkDecision{}); got != nil {
		t.Errorf("another network has %v", got)
	}
}

// TestALoanOnASegment asks n2, whose range has the address, about loans that name homes.
func TestALoanOnASegment(t *testing.T) {
	lacks := func(string, []netip.Addr) bool { return true } // no pod CIDR has it
	for name, tc := range map[string]struct {
		owns, home string
		want       string
	}{
		"home itself":                             {"10.9.1.0/28", "n2", "owns true whole true foreign false"},
		"a range that came with the loan":         {"10.9.1.0/28", "n1", "owns true whole false foreign true"},
		"a borrower":                              {"10.9.2.0/28", "n1", "owns false whole false foreign false"},
		"a node that is home, and lost the range": {"10.9.2.0/28", "n2", "owns false whole false foreign false"},
	} {
		t.Run(name, func(t *testing.T) {
			in := plan.LoansInput{Node: "n2", Network: "lan", Owns: []netip.Prefix{netip.MustParsePrefix(tc.owns)}, Shared: true, Lacks: lacks}
			o := lent("a", "10.9.1.7", "n3")
			o.Status.Home, o.Status.Borrower = tc.home, loan.Unknown
			out := in.Input(plan.LoanCase{Object: o, Addresses: []netip.Addr{netip.MustParseAddr("10.9.1.7")}}, false, true)
			if got := fmt.Sprintf("owns %t whole %t foreign %t", out.Owns, out.Whole, out.Foreign); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func aRange(from, to string) ipam.Range {
	return ipam.Range{Start: netip.MustParseAddr(from), End: netip.MustParseAddr(to), Gateway: netip.MustParseAddr("10.9.0.1")}
}
