package board

import (
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/fit"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// node is a node with its networks.
type node struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`
	Networks []Network `json:"networks"`
	// More is the number of networks that are left out.
	More int `json:"more"`
}

// Network is the pool of one network of a node. The numbers are those of its agent.
type Network struct {
	Name     string `json:"name"`
	Total    int64  `json:"total"`
	Attached int64  `json:"attached"`
	Reserved int64  `json:"reserved"`
	Free     int64  `json:"free"`
	Sets     []Set  `json:"sets"`
}

// Set is a range set. A pod has one address of each.
type Set struct {
	Ranges []Range `json:"ranges"`
	// Whole tells that the set is small enough to draw each of its addresses. Otherwise only those in use are drawn.
	Whole bool   `json:"whole"`
	Used  []Used `json:"used"`
	// More is the number of used addresses that are left out.
	More int `json:"more"`
}

// use says how an address is used.
type use string

// Uses of an address. Disputed is an address that is reserved for one pod while another has it. Lent is one that a pod of another
// node may have.
const (
	Attached use = "A"
	Reserved use = "R"
	Disputed use = "D"
	Lent     use = "L"
)

// Used is an address with its holder.
type Used struct {
	IP  string `json:"ip"`
	Use use    `json:"use"`
	Pod string `json:"pod"`
	// Other is the second holder of a disputed address, and the node that has a lent one, if any has.
	Other string `json:"other,omitempty"`
	// Until is when the reservation ends; unset while the pod runs.
	Until *metav1.Time `json:"until,omitempty"`

	address netip.Addr
}

// nodes returns the nodes in the order of their names. A pool without a node has its place too.
func nodes(f *facts.Facts) []sized[node] {
	found, pools, used := map[string]*node{}, map[string][]*limpetv1alpha1.NodeIPPoolStatus{}, holders(f)
	for i := range f.Nodes {
		found[f.Nodes[i].Name] = &node{Name: f.Nodes[i].Name, State: state(&f.Nodes[i]), Networks: []Network{}}
	}
	for i := range f.Pools {
		s := &f.Pools[i].Status
		if found[s.Node] == nil {
			found[s.Node] = &node{Name: short(s.Node), State: "Unknown", Networks: []Network{}}
		}
		pools[s.Node] = append(pools[s.Node], s)
	}
	all := []sized[node]{}
	for _, name := range slices.SortedFunc(maps.Keys(found), byName) {
		whole := sync.OnceValue(func() node { return found[name].with(pools[name], used[name]) })
		all = append(all, sized[node]{
			key: key{name, name}, parts: func() int { return sum(whole().used()) }, cut: func(most int) node { return whole().cut(most) },
		})
	}
	return all
}

// with returns a node with its networks in the order of their names.
func (n *node) with(pools []*limpetv1alpha1.NodeIPPoolStatus, used map[netip.Addr]Used) node {
	slices.SortFunc(pools, func(a, b *limpetv1alpha1.NodeIPPoolStatus) int { return strings.Compare(a.Network, b.Network) })
	whole := *n
	whole.More = max(0, len(pools)-mostNetworks)
	for _, s := range pools[:len(pools)-whole.More] {
		whole.Networks = append(whole.Networks, network(s, used))
	}
	return whole
}

// sets returns all range sets of a node.
func (n node) sets() (sets []*Set) {
	for i := range n.Networks {
		for j := range n.Networks[i].Sets {
			sets = append(sets, &n.Networks[i].Sets[j])
		}
	}
	return sets
}

// used returns how many addresses are used of each range set.
func (n node) used() (numbers []int) {
	for _, s := range n.sets() {
		numbers = append(numbers, len(s.Used))
	}
	return numbers
}

// cut leaves out what exceeds a number of addresses. A set that lacks some is not drawn whole: they would look free.
func (n node) cut(most int) node {
	shares := share(n.used(), most, func(int) string { return n.Name })
	for i, s := range n.sets() {
		if left := len(s.Used) - shares[i]; left > 0 {
			s.Used, s.More, s.Whole = s.Used[:shares[i]], s.More+left, false
		}
	}
	return n
}

func state(node *corev1.Node) string {
	switch {
	case !fit.Ready(node):
		return "NotReady"
	case node.Spec.Unschedulable:
		return "Cordoned"
	}
	return "Ready"
}

// network returns the pool of one network with the addresses that are used on its node.
func network(s *limpetv1alpha1.NodeIPPoolStatus, used map[netip.Addr]Used) Network {
	n := Network{Name: short(s.Network), Total: s.Total, Attached: s.Attached, Reserved: s.Reserved, Free: s.Free, Sets: []Set{}}
	for _, text := range s.Ranges[:min(len(s.Ranges), mostSets)] {
		n.Sets = append(n.Sets, set(text, used))
	}
	return n
}

func set(text string, used map[netip.Addr]Used) Set {
	ranges, size := parse(text)
	s := Set{Ranges: ranges, Whole: size.Cmp(big.NewInt(mostUsed)) <= 0, Used: []Used{}}
	for address, u := range used {
		if slices.ContainsFunc(ranges, func(r Range) bool { return r.contains(address) }) {
			s.Used = append(s.Used, u)
		}
	}
	slices.SortFunc(s.Used, func(a, b Used) int { return a.address.Compare(b.address) })
	s.More = max(0, len(s.Used)-mostUsed)
	s.Used = s.Used[:len(s.Used)-s.More]
	return s
}

// holders returns who has the addresses of each node: pods, and those for whom addresses are reserved.
func holders(f *facts.Facts) map[string]map[netip.Addr]Used {
	all := map[string]map[netip.Addr]Used{}
	of := func(node string) map[netip.Addr]Used {
		if all[node] == nil {
			all[node] = map[netip.Addr]Used{}
		}
		return all[node]
	}
	for i := range f.Reservations {
		r := &f.Reservations[i]
		use := Attached
		if r.Status.State == limpetv1alpha1.IPReserved {
			use = Reserved
		}
		for text := range strings.SplitSeq(r.Status.IPs, ",") {
			if a, ok := address(text); ok {
				of(r.Status.Node)[a] = Used{IP: text, Use: use, Pod: short(r.Namespace + "/" + r.Status.Pod), Until: r.Status.Until, address: a}
			}
		}
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		if p.Spec.HostNetwork || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			if a, ok := address(ip.IP); ok {
				u := of(p.Spec.NodeName)
				u[a] = attach(u[a], Used{IP: ip.IP, Use: Attached, Pod: p.Namespace + "/" + p.Name, address: a})
			}
		}
	}
	addLent(f, of)
	return all
}

// addLent adds the addresses on loan to those of their homes.
func addLent(f *facts.Facts, of func(node string) map[netip.Addr]Used) {
	for i := range f.Loans {
		b := &f.Loans[i]
		for text := range strings.SplitSeq(b.Spec.IPs, ",") {
			if a, ok := address(text); ok && slices.Contains([]loan.Phase{loan.Lent, loan.Ending}, loan.Phase(b.Status.Phase)) {
				of(b.Status.Home)[a] = Used{IP: text, Use: Lent, Pod: short(b.Namespace + "/" + b.Spec.Pod), Other: short(b.Status.Borrower), address: a}
			}
		}
	}
}

// attach returns the use of an address that a pod has. A reservation for another pod disputes it.
func attach(before, pod Used) Used {
	if before.Pod != "" && before.Pod != pod.Pod {
		pod.Use, pod.Other, pod.Until = Disputed, before.Pod, before.Until
	}
	return pod
}
