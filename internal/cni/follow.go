package cni

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// follow adds to the configuration of a network that Limpet did not write what its agent says, for a pod whose address shall
// follow it.
func follow(conf *netconf.Config) error {
	if conf.Annotations[reservation.ModeAnnotation] != reservation.Follow.String() || conf.Network == reservation.FollowNetwork {
		return nil
	}
	f, err := persistence.ReadFollows(conf.DataDir)
	if err == nil && f.Network == conf.Network {
		conf.Follows, conf.Node = true, f.Node
	}
	return err //nolint:wrapcheck // it says what was read
}

// rangesKnown returns an error for ranges that came with this ADD and of which another node may have an address as a guest: the
// agent has not read their loans.
func (ad *adding) rangesKnown() error {
	if ad.conf.Network == reservation.FollowNetwork || ad.tx.HasConfig(ad.conf.Network, ipam.EncodeSets(ad.conf.Sets)) {
		return nil
	}
	f, err := persistence.ReadFollows(ad.conf.DataDir)
	of := f.Network == ad.conf.Network
	if err != nil || !of && ad.conf.Segment == "" {
		return err //nolint:wrapcheck // it says what was read
	}
	for _, r := range slices.Concat(ad.conf.Sets...) {
		unread := func(p netip.Prefix) bool {
			return !slices.ContainsFunc(f.Ranges, func(known netip.Prefix) bool { return known.Bits() <= p.Bits() && known.Contains(p.Addr()) })
		}
		if !of || slices.ContainsFunc(r.Prefixes(), unread) {
			return fmt.Errorf("%s of %s is a new range: %w: see the log of limpet-agent on this node", r, r.Subnet, errUnread)
		}
	}
	return nil
}

// mustAsk reports whether an ADD claims addresses that no pod of this node had since they were elsewhere, on a segment of several
// nodes: a pod of a node that was taken for dead can still have them.
func (ad *adding) mustAsk(plan reservation.AddDecision) bool {
	return ad.conf.Segment != "" && plan.Verdict == reservation.Claim && plan.Claimed != nil && plan.Claimed.ContainerID == "" && !slices.Equal(plan.Addresses, ad.asked)
}

// askFirst tries again, unless a machine of the segment has one of the addresses. Nothing is stored while it asks, and the lock is
// free.
func (ad *adding) askFirst(addrs []netip.Addr) (plan reservation.AddDecision, err error) {
	ad.asked = addrs
	by, err := ad.Ask(ad.conf.Segment, addrs)
	if err != nil {
		return plan, err
	}
	for a, mac := range by {
		return plan, fmt.Errorf("%s: %w: %s has it on %s: find that machine, and take the address from it", a, errAnswered, mac, ad.conf.Segment)
	}
	return ad.try()
}
