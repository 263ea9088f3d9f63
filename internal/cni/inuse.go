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
	seen := len(ad.inUse)
	ad.logInUse(c.Routed, ipam.Routed)
	ad.logInUse(c.Reached, ipam.Reached)
	if len(ad.inUse) == seen {
		return nil
	}
	return ad.tx.CountInUse(ad.conf.Network, len(ad.inUse)-seen)
}

func (ad *adding) logInUse(addrs []netip.Addr, use ipam.Use) {
	for _, a := range addrs {
		if slices.Contains(ad.inUse, a) {
			continue
		}
		if ad.inUse = append(ad.inUse, a); len(ad.inUse) <= maxNotes/2 {
			ad.Log.Warn("A free address is in use on this node, another one is taken", "address", a.String(), "use", use.String())
		}
	}
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
