package cni

import (
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// use asks the kernel about an address. A kernel that does not answer is no reason to fail the pod.
func (ad *adding) use(addr netip.Addr) ipam.Use {
	use, err := ad.UseOf(addr)
	if err != nil && !ad.askedBadly {
		ad.askedBadly = true
		ad.Log.Warn("The kernel does not say whether an address is in use", "address", addr.String(), "error", err)
	}
	return use
}

// noteInUse logs and counts the free addresses that a choice passed over, once for each ADD.
func (ad *adding) noteInUse(c ipam.Choice) error {
	used := slices.DeleteFunc(append(c.Routed, c.Reached...), func(a netip.Addr) bool { return slices.Contains(ad.inUse, a) })
	if len(used) == 0 {
		return nil
	}
	ad.inUse = append(ad.inUse, used...)
	ad.Log.Warn("Free addresses are in use on this node, another one is taken: ip route get, ip neigh show", "addresses", used[:min(len(used), maxNotes)])
	return ad.tx.CountInUse(ad.conf.Network, len(used))
}

// noteOwner remembers that an address had another owner lately.
func (ad *adding) noteOwner(released persistence.Released, addr netip.Addr) {
	if released.Lately(addr) {
		ad.hadOwner = append(ad.hadOwner, addr)
	}
}

// forgetOwners makes the node forget who had the addresses of a new attachment lately. A failure is no reason to fail the
// pod.
func (ad *adding) forgetOwners() {
	if len(ad.hadOwner) == 0 {
		return
	}
	if err := ad.ForgetOwner(ad.hadOwner); err != nil {
		ad.Log.Warn("Packets of an earlier owner may reach the pod", "pod", ad.a.Owner.String(), "addresses", ad.hadOwner, "error", err)
	}
}
