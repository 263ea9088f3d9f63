package cni

import (
	"fmt"
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
	if err != nil || f.Network != ad.conf.Network {
		return err //nolint:wrapcheck // it says what was read
	}
	for _, r := range slices.Concat(ad.conf.Sets...) {
		if !slices.Contains(f.Ranges, r.Subnet.Masked()) {
			return fmt.Errorf("%s is a new range: %w: see the log of limpet-agent on this node", r.Subnet, errUnread)
		}
	}
	return nil
}
