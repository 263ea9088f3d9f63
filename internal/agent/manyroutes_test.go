package agent_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// BenchmarkTenThousandLoans makes the routes of a node in a cluster in which 10 000 addresses are lent: all of them at once, as
// after a boot, and then rounds in which nothing, or one loan, has changed. It needs root, and a network namespace of its own.
func BenchmarkTenThousandLoans(b *testing.B) {
	const lent, nodes = 10_000, 5_000
	in := plan.OwnNetworkInput{Node: "n0", Network: reservation.FollowNetwork}
	for i := range nodes {
		in.Nodes = append(in.Nodes, *peer(fmt.Sprint("n", i), []string{fmt.Sprintf("10.%d.%d.0/24", i/250, i%250)}, fmt.Sprintf("198.18.%d.%d", i/250, 1+i%250)))
	}
	for i := range lent {
		home := 1 + i%(nodes-1)
		o := &v1alpha1.BorrowedAddress{Spec: v1alpha1.BorrowedAddressSpec{
			Pod: fmt.Sprint("db-", i), Network: in.Network, Interface: "eth0", IPs: fmt.Sprintf("10.%d.%d.%d", home/250, home%250, 2+i/(nodes-1)),
		}}
		o.Namespace, o.Name = "shop", fmt.Sprint("db-", i, ".eth0.limpet")
		o.Status = v1alpha1.BorrowedAddressStatus{Home: fmt.Sprint("n", home), Borrower: fmt.Sprint("n", 1+(home+i/(nodes-1))%(nodes-1)), Phase: "Lent", Epoch: 1}
		in.Loans = append(in.Loans, o)
	}
	inNetNS(b)
	h := handle(b)
	eth0, err := h.LinkByName("eth0")
	if err == nil {
		err = h.AddrAdd(eth0, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(198, 18, 0, 1), Mask: net.CIDRMask(15, 32)}})
	}
	if err != nil {
		b.Fatal(err)
	}
	round := func(b *testing.B, want int) {
		routes := plan.OwnNetwork(in).Routes
		if len(routes) != want {
			b.Fatalf("%d routes, want %d", len(routes), want)
		}
		if err := agent.ApplyRoutes(h, routes); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("boot", func(b *testing.B) {
		for b.Loop() {
			round(b, lent+nodes)
			b.StopTimer()
			if err := agent.ApplyRoutes(h, nil); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	round(b, lent+nodes)
	b.Run("nothing changes", func(b *testing.B) {
		for b.Loop() {
			round(b, lent+nodes)
		}
	})
	b.Run("one loan moves", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			in.Loans[7].Status.Borrower = fmt.Sprint("n", 100+i%2)
			round(b, lent+nodes)
		}
	})
}
