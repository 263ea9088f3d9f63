package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// contender is a claim whose addresses others may claim, too. The lowest rank comes first, and then the oldest Node.
type contender struct {
	claim
	rank  int
	since time.Time
}

const (
	rankOwn    = iota // what this node has, and the address of the API server
	rankRouted        // services, and then what a route of the agent leads to
	rankAge           // all else
)

// owners returns the pod CIDRs that count, and says which do not. The token of a kubelet can give a Node without a pod
// CIDR any, and can give it any address. The first owner of an address stays.
func (in OwnNetworkInput) owners(ranges []claim) (podCIDRs []claim, refused error) {
	all, texts := in.contenders(ranges)
	slices.SortFunc(all, func(a, b contender) int { return a.prefix.Compare(b.prefix) })
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[0].prefix.Overlaps(all[n].prefix) { // a prefix stands before all within it
			n++
		}
		first, later := firstOwners(all[:n])
		podCIDRs, texts, all = append(podCIDRs, first...), append(texts, later...), all[n:]
	}
	if slices.Sort(texts); len(texts) > 0 {
		refused = fmt.Errorf("%d pod CIDRs count for nothing: %s", len(texts), strings.Join(texts[:min(len(texts), 5)], "; "))
	}
	return podCIDRs, refused
}

func (in OwnNetworkInput) contenders(ranges []claim) (all []contender, refused []string) {
	for _, p := range in.Services {
		if p.IsSingleIP() {
			all = append(all, contender{claim: claim{prefix: p, node: "(the API server)"}})
		} else if p.IsValid() {
			all = append(all, contender{claim{p.Masked(), "(the API server)", "Services"}, rankRouted, time.Time{}})
		}
	}
	created, networks, had := map[string]time.Time{}, in.podNetworks(), map[Route]bool{}
	for _, r := range in.Have {
		had[r] = true
	}
	for _, p := range applied(in.Current) {
		had[Route{To: p}] = true
	}
	for _, n := range in.Nodes {
		created[n.Name] = n.CreationTimestamp.Time
	}
	for _, c := range slices.Concat(in.podCIDRs, in.addresses, ranges) {
		rank := in.rank(c, had)
		switch {
		case c.podCIDR() && !allowed(c.prefix, networks):
			refused = append(refused, c.String()+" is no network for the pods of a node: see --pod-networks")
		case c.use == "" || rank < rankAge: // new ranges give way to pod CIDRs
			all = append(all, contender{c, rank, created[c.node]})
		}
	}
	return all, refused
}

func (c claim) podCIDR() bool { return c.use == "" && !c.prefix.IsSingleIP() }

func (in OwnNetworkInput) rank(c claim, had map[Route]bool) int {
	route, _ := in.routeTo(c)
	switch {
	case c.node == in.Node && (c.prefix.IsSingleIP() || had[route]):
		return rankOwn
	case had[route]:
		return rankRouted
	}
	return rankAge
}

// firstOwners returns the pod CIDRs among claims that stay, and says which do not.
func firstOwners(claims []contender) (podCIDRs []claim, refused []string) {
	slices.SortStableFunc(claims, func(a, b contender) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.since.Compare(b.since), cmp.Compare(a.node, b.node))
	})
	var first []claim
	for _, c := range claims {
		i := slices.IndexFunc(first, func(o claim) bool {
			return o.node != c.node && o.prefix.Overlaps(c.prefix) && (!o.prefix.IsSingleIP() || !c.prefix.IsSingleIP())
		})
		switch {
		case i < 0:
			first = append(first, c.claim)
		case c.podCIDR():
			refused = append(refused, fmt.Sprintf("%s shares addresses with %s, which was there first", c, first[i]))
		}
	}
	return slices.DeleteFunc(first, func(c claim) bool { return !c.podCIDR() }), refused
}

// podNetworks returns the networks of the cluster's pods. In a family of which none is set, these are private networks,
// and that of this node's pod CIDR and of those which differ from it in the last 16 bits.
func (in OwnNetworkInput) podNetworks() []netip.Prefix {
	of := slices.Clone(privateNetworks)
	for _, c := range in.podCIDRs {
		if c.node == in.Node {
			of = append(of, netip.PrefixFrom(c.prefix.Addr(), max(c.prefix.Bits()-16, 0)))
		}
	}
	return append(slices.DeleteFunc(of, func(p netip.Prefix) bool {
		return slices.ContainsFunc(in.PodNetworks, func(n netip.Prefix) bool { return n.Addr().Is4() == p.Addr().Is4() })
	}), in.PodNetworks...)
}

var privateNetworks = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7"),
}

// allowed reports whether a node may have a pod CIDR: within a network of pods, and not too wide nor too narrow.
func allowed(p netip.Prefix, networks []netip.Prefix) bool {
	widest, narrowest := 48, 126
	if p.Addr().Is4() {
		widest, narrowest = 16, 30
	}
	within := func(n netip.Prefix) bool { return n.Bits() <= p.Bits() && n.Contains(p.Addr()) }
	return p.Bits() >= widest && p.Bits() <= narrowest && slices.ContainsFunc(networks, within)
}
