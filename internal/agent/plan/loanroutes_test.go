package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

func addresses(texts ...string) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, t := range texts {
		all[netip.MustParseAddr(t)] = true
	}
	return all
}

// withIPs returns a node with an internal IP of each family.
func withIPs(name, cidr string, ips ...string) corev1.Node {
	var n corev1.Node
	n.Name, n.Spec.PodCIDRs = name, []string{cidr}
	for _, ip := range ips {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return n
}

// TestRoutesToGuests asks n3 for its routes to guests, unless the node is told to be another one. The home n1 has
// 10.9.1.0/24.
func TestRoutesToGuests(t *testing.T) {
	nodes := []corev1.Node{
		withIPs("n1", "10.9.1.0/24", "192.0.2.1", "2001:db8::1"), withIPs("n2", "10.9.2.0/24", "192.0.2.2", "2001:db8::2"),
		withIPs("n3", "10.9.3.0/24", "192.0.2.3"), withIPs("n4", "10.9.4.0/24", "192.0.2.4"),
	}
	with := func(change func(*v1alpha1.BorrowedAddress)) func(*v1alpha1.BorrowedAddress) { return change }
	home := func(node string) func(*v1alpha1.BorrowedAddress) {
		return func(o *v1alpha1.BorrowedAddress) { o.Status.Home = node }
	}
	one := func(o *v1alpha1.BorrowedAddress) []*v1alpha1.BorrowedAddress { return []*v1alpha1.BorrowedAddress{o} }
	old := []plan.Route{{To: netip.MustParsePrefix("10.9.1.7/32"), Via: netip.MustParseAddr("192.0.2.2")}}
	const led = "[{10.9.1.7/32 192.0.2.2 0 false}]"
	for name, tc := range map[string]struct {
		node       string
		loans      []*v1alpha1.BorrowedAddress
		held, lent string
		have       []plan.Route
		untold     bool
		settings   *plan.NodeNetwork
		want       string
		unreached  int
	}{
		"no loan":                        {want: "[]"},
		"lent":                           {loans: one(lent("a", "10.9.1.7", "n2")), want: led},
		"ending":                         {loans: one(lent("a", "10.9.1.7", "n2", in(loan.Ending))), want: led},
		"asked":                          {loans: one(lent("a", "10.9.1.7", "n2", in(loan.Asked))), want: "[]"},
		"ended":                          {loans: one(lent("a", "10.9.1.7", "n2", in(loan.Ended))), want: "[]"},
		"no node borrows":                {loans: one(lent("a", "10.9.1.7", "")), want: "[]"},
		"no node is known to borrow":     {loans: one(lent("a", "10.9.1.7", "?")), want: "[]"},
		"a node that is gone borrows":    {loans: one(lent("a", "10.9.1.7", "n9")), want: "[]", unreached: 1},
		"the guest is here":              {node: "n2", loans: one(lent("a", "10.9.1.7", "n2")), want: "[]"},
		"the cache is late, a guest":     {node: "n3", loans: one(lent("a", "10.9.1.7", "n2")), held: "10.9.1.7", want: "[]"},
		"home has lent":                  {node: "n1", loans: one(lent("a", "10.9.1.7", "n2")), lent: "10.9.1.7", want: led},
		"home has it":                    {node: "n1", loans: one(lent("a", "10.9.1.7", "n2")), held: "10.9.1.7", want: "[]"},
		"home has freed it":              {node: "n1", loans: one(lent("a", "10.9.1.7", "n2")), want: "[]"},
		"both families":                  {settings: &plan.NodeNetwork{Spec: v1alpha1.NodeNetworkSpec{Ranges: []v1alpha1.NodeRange{{Node: "n1", CIDR: "fd09:1::/64"}}}}, loans: one(lent("a", "10.9.1.7,fd09:1::7", "n2")), want: "[{10.9.1.7/32 192.0.2.2 0 false} {fd09:1::7/128 2001:db8::2 0 false}]"},
		"the borrower lacks a family":    {settings: &plan.NodeNetwork{Spec: v1alpha1.NodeNetworkSpec{Ranges: []v1alpha1.NodeRange{{Node: "n1", CIDR: "fd09:1::/64"}}}}, loans: one(lent("a", "10.9.1.7,fd09:1::7", "n4")), want: "[{10.9.1.7/32 192.0.2.4 0 false}]", unreached: 1},
		"home is gone":                   {loans: one(lent("a", "10.8.1.7", "n2", home("n9"))), want: "[{10.8.1.7/32 192.0.2.2 0 false}]"},
		"the address of another home":    {loans: one(lent("a", "10.9.4.7", "n2")), want: "[]"},
		"one of another home":            {loans: one(lent("a", "10.9.1.7,10.9.4.7", "n2")), want: "[{10.9.1.7/32 192.0.2.2 0 false} {10.9.4.7/32 192.0.2.2 0 false}]"},
		"the address of a node":          {loans: one(lent("a", "192.0.2.4", "n2", home("n9"))), want: "[]"},
		"the address of a service":       {loans: one(lent("a", "10.96.0.10", "n2", home("n9"))), want: "[]"},
		"an address of no pod":           {loans: one(lent("a", "198.51.100.7", "n2", home("n9"))), want: "[]"},
		"an address of this node":        {loans: one(lent("a", "10.9.3.7", "n2", home("n9"))), want: "[]"},
		"two loans, and the newer one":   {loans: []*v1alpha1.BorrowedAddress{lent("a", "10.9.1.7", "n4", with(func(o *v1alpha1.BorrowedAddress) { o.Status.Epoch = 2 })), lent("b", "10.9.1.7", "n2", with(func(o *v1alpha1.BorrowedAddress) { o.Status.Epoch = 3 }))}, want: led},
		"ended, and there was a route":   {loans: one(lent("a", "10.9.1.7", "n2", in(loan.Ended))), have: old, want: "[]"},
		"untold, and there was a route":  {have: old, untold: true, want: led},
		"untold, and it moved":           {loans: one(lent("a", "10.9.1.7", "n4")), have: old, untold: true, want: "[{10.9.1.7/32 192.0.2.4 0 false}]"},
		"untold, and the guest is here":  {have: old, untold: true, held: "10.9.1.7", want: "[]"},
		"untold, and home has taken it":  {node: "n1", have: old, untold: true, held: "10.9.1.7", want: "[]"},
		"untold, and home has freed it":  {node: "n1", have: old, untold: true, want: "[]"},
		"untold, and home has not ended": {node: "n1", have: old, untold: true, lent: "10.9.1.7", want: led},
	} {
		t.Run(name, func(t *testing.T) {
			i := plan.OwnNetworkInput{
				Node: "n3", Network: plan.NetworkName, Nodes: nodes, Loans: tc.loans, LoansUntold: tc.untold, Have: tc.have, Settings: tc.settings,
				Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
			}
			if tc.node != "" {
				i.Node = tc.node
			}
			if tc.held != "" {
				i.Held = addresses(tc.held)
			}
			if tc.lent != "" {
				i.Lent = addresses(tc.lent)
			}
			for _, i.Untold = range []bool{false, true} { // of ranges, which changes no route to a guest
				d := plan.OwnNetwork(i)
				if got := fmt.Sprint(slices.DeleteFunc(d.Routes, func(r plan.Route) bool { return !r.To.IsSingleIP() })); got != tc.want {
					t.Errorf("ranges untold %t: routes %s, want %s", i.Untold, got, tc.want)
				}
				if d.Unreached != tc.unreached {
					t.Errorf("ranges untold %t: %d unreached, want %d", i.Untold, d.Unreached, tc.unreached)
				}
			}
		})
	}
}

// TestFreshRanges compares the ranges of a network configuration with those of the node.
func TestFreshRanges(t *testing.T) {
	i := plan.OwnNetworkInput{Network: plan.NetworkName, Node: "n1", Nodes: []corev1.Node{withIPs("n1", "10.9.1.0/24", "192.0.2.1")}}
	d := plan.OwnNetwork(i)
	if !d.Fresh || fmt.Sprint(d.Owns) != "[10.9.1.0/24]" {
		t.Errorf("a new node: fresh %t, owns %v", d.Fresh, d.Owns)
	}
	i.Current = d.Conflist
	if d = plan.OwnNetwork(i); d.Fresh {
		t.Error("a node that has its range: fresh")
	}
	i.Settings = &plan.NodeNetwork{Spec: v1alpha1.NodeNetworkSpec{Ranges: []v1alpha1.NodeRange{
		{Node: "n1", CIDR: "10.8.1.0/24", Use: v1alpha1.RangeRetired}, {Node: "n2", CIDR: "10.8.2.0/24", Use: v1alpha1.RangeFurther},
	}}}
	if d = plan.OwnNetwork(i); d.Fresh || fmt.Sprint(d.Owns) != "[10.9.1.0/24 10.8.1.0/24]" {
		t.Errorf("a retired range: fresh %t, owns %v", d.Fresh, d.Owns)
	}
	i.Settings.Spec.Ranges[0].Use = v1alpha1.RangeFurther
	if d = plan.OwnNetwork(i); !d.Fresh {
		t.Error("a further range: not fresh")
	}
}

// manyLoans returns nodes, and loans of the first one to the others.
func manyLoans(n int) plan.OwnNetworkInput {
	i := plan.OwnNetworkInput{Network: plan.NetworkName, Node: "n3"}
	for k := range 200 {
		i.Nodes = append(i.Nodes, withIPs(fmt.Sprintf("n%d", k), fmt.Sprintf("10.%d.0.0/16", 10+k), fmt.Sprintf("192.0.2.%d", k+1)))
	}
	for k := range n {
		ip := netip.AddrFrom4([4]byte{10, 11, byte(k >> 8), byte(k)}).String()
		i.Loans = append(i.Loans, lent(fmt.Sprintf("web-%d", k), ip, fmt.Sprintf("n%d", 4+k%100)))
	}
	return i
}

// BenchmarkRoutesToGuests decides about the routes of a node while all loans stand, by the number of loans.
func BenchmarkRoutesToGuests(b *testing.B) {
	for _, n := range []int{0, 1_000, 10_000, 40_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			i := manyLoans(n)
			i.Have = plan.OwnNetwork(i).Routes
			for b.Loop() {
				if d := plan.RouteChanges(i.Have, plan.OwnNetwork(i).Routes); len(d.Add)+len(d.Replace)+len(d.Remove) > 0 {
					b.Fatalf("changes: %+v", d)
				}
			}
		})
	}
}
