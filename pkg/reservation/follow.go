package reservation

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Following is what an ADD knows about the address of an owner that follows.
type Following struct {
	// Lent tells that this node has lent the address.
	Lent bool
	// Own tells that this node has an address for the owner: of an earlier life, reserved or as a guest. Confirmed tells that
	// the agent has read the loan since the node started.
	Own, Confirmed bool
	// Elsewhere tells that the pod has an address on another node, as the controller wrote on the pod.
	Elsewhere bool
}

// PlanFollowing decides which address an ADD takes; Refuse means that it waits for the agent. It asks the state alone: the agent
// has written there what it has read.
func PlanFollowing(f Following) AddVerdict {
	switch {
	case f.Lent:
		return Refuse
	case f.Own && f.Confirmed:
		return Claim
	case f.Own || f.Elsewhere:
		return Refuse
	}
	return Allocate
}

// waitError is an ErrPredecessor with other words.
type waitError string

// Error returns the words.
func (e waitError) Error() string { return string(e) }

// Is makes the error an ErrPredecessor: trying again later helps.
func (waitError) Is(target error) bool { return target == ErrPredecessor }

// whyWaits says why the ADD of an owner that follows waits for the agent; "" where it does not wait, or the owner does not follow.
func whyWaits(in *AddInput) string {
	f := Following{Elsewhere: in.Mode == Follow && in.Home != ""}
	follows, addrs, dead := in.Mode == Follow, []netip.Addr(nil), newest(in.Earlier, false)
	switch {
	case reservedIsNewest(in):
		own := in.Reserved
		follows, addrs = follows || own.Mode == Follow, own.Addresses
		f.Own, f.Lent, f.Confirmed = true, own.Lent != 0, own.BootID == in.Now.BootID
	case dead != nil:
		follows, addrs = follows || dead.follows(), dead.Addresses
		f.Own, f.Confirmed = true, dead.Since.BootID == in.Now.BootID
	}
	if newestLife(in) != nil { // and has the address: its end comes first
		f.Own, f.Confirmed = true, true
	}
	if !follows || PlanFollowing(f) != Refuse {
		return ""
	}
	what := "the address is of node " + in.Home + ", and limpet-agent has not borrowed it"
	switch {
	case f.Lent:
		what = join(addrs) + " is lent to another node, and limpet-agent has not taken it back"
	case f.Own:
		what = join(addrs) + " may be lent since this node started, and limpet-agent has not said that it is not"
	}
	return in.Owner.String() + ": " + what + ": see its log on this node, and kubectl limpet pod " + in.Owner.Pod + " -n " + in.Owner.Namespace
}

// WhyPreferred says why "follow" means "preferred" for a pod on a node; "" where it does not. The parameter minutes has how long
// each network keeps the addresses of the pod, as its IPReservations of that node say.
func WhyPreferred(node string, minutes map[string]int32) string {
	for _, network := range slices.Sorted(maps.Keys(minutes)) {
		if minutes[network] < int32(Forever.Minutes()) {
			return fmt.Sprintf("network %s of node %s is neither Limpet's own, nor flannel's with bridge, IPv4 and host-gw or vxlan, nor a segment that nodes share; or it is, and the log of limpet-agent there says what is wrong", network, node)
		}
	}
	if len(minutes) == 0 {
		return fmt.Sprintf("the network of node %s is not known: limpet-agent shows no address of the pod there", node)
	}
	return ""
}
