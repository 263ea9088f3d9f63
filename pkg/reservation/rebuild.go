package reservation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Records are the attachments and reservations of one node.
type Records struct {
	Attachments  []Attachment
	Reservations []Reservation
}

// RebuildInput holds what is left when the state of a node was lost or damaged.
type RebuildInput struct {
	Now Moment
	// Read are the records that could be read from the state.
	Read Records
	// Complete is true when the state held no records but Read.
	Complete bool
	// Unreferenced are records that the state held at some time, and perhaps not at the end, in one or several versions.
	Unreferenced Records
	// Seen are attachments that other sources know, such as the result cache of libcni, from the oldest to the newest.
	// Facts that a source does not know are left empty.
	Seen []Attachment
	// Placeholders are attachments without a container, for the addresses in live network namespaces. A placeholder
	// counts when no other attachment explains the address.
	Placeholders []Attachment
	// Alive reports whether the network namespace of an attachment exists.
	Alive func(Attachment) bool
}

// RebuildDecision is the state to go on with.
type RebuildDecision struct {
	Records
	// Seq is the highest number of all records: the next ADD gets a higher one.
	Seq uint64
	// Dropped says in words which records were left out in favor of better sources.
	Dropped []string
}

// PlanRebuild makes a state out of what is left (rule 6). When two records have the same address, the first source in
// the order below wins. Records of different attachments are never combined.
func PlanRebuild(in RebuildInput) RebuildDecision {
	r := rebuild{in: in, holder: map[netIP]string{}, known: map[AttachmentID]bool{}, newest: map[Owner]uint64{}, kept: map[Owner]bool{}}
	seen := r.number()
	r.reserve(lent(in.Read.Reservations))                  // another node may have a pod with the address
	r.attach(seen, true)                                   // other sources know it, and it lives
	r.attach(r.current(in.Read.Attachments), true)         // the state had it, and it lives
	r.attach(r.current(in.Unreferenced.Attachments), true) // the state had it at some time, and it lives
	r.reserve(r.inUse(in.Read.Reservations))               // the namespace of the life that ended still has the addresses
	r.addPlaceholders()
	r.reserve(in.Read.Reservations)
	if !in.Complete {
		r.reserve(Unlapsed(in.Unreferenced.Reservations, in.Now)) // an outdated reservation only costs an address for a while
	}
	r.attach(in.Read.Attachments, false) // the DEL is still to come
	r.attach(seen, false)
	return r.RebuildDecision
}

// lent returns the reservations whose addresses the node has lent.
func lent(all []Reservation) []Reservation {
	return slices.DeleteFunc(slices.Clone(all), func(s Reservation) bool { return s.Lent == 0 })
}

// netNSPrefix begins the container IDs of placeholders. No runtime makes such an ID.
const netNSPrefix = "netns:"

// NetNSPlaceholder returns the container ID of the attachment that stands for the unexplained addresses of a network
// namespace.
func NetNSPlaceholder(n NetNS) string { return netNSPrefix + strings.ToValidUTF8(n.Path, "?") }

// IsNetNSPlaceholder reports whether the container ID stands for a network namespace.
func (id AttachmentID) IsNetNSPlaceholder() bool {
	return strings.HasPrefix(id.ContainerID, netNSPrefix)
}

// netIP is an address in one network: networks may overlap.
type netIP struct {
	network string
	addr    netip.Addr
}

type rebuild struct {
	RebuildDecision
	in     RebuildInput
	holder map[netIP]string
	known  map[AttachmentID]bool
	newest map[Owner]uint64 // highest Seq of an owner's attachments
	kept   map[Owner]bool   // owners with a reservation
}

// number replaces attachments of other sources by the records that the state had of them. Attachments that the state
// did not have get higher numbers than all records, unless they have ended and the state is complete.
func (r *rebuild) number() []Attachment {
	byID := map[AttachmentID]Attachment{}
	for _, records := range []Records{r.in.Unreferenced, r.in.Read} {
		for _, a := range records.Attachments {
			byID[a.ID] = a
			r.Seq = max(r.Seq, a.Seq)
		}
		for _, s := range records.Reservations {
			r.Seq = max(r.Seq, s.Seq)
		}
	}
	seen := make([]Attachment, 0, len(r.in.Seen))
	for _, a := range r.in.Seen {
		if was, found := byID[a.ID]; found && SameAddresses(was.Addresses, a.Addresses) {
			a = was
		} else if r.in.Alive(a) || !r.in.Complete {
			r.Seq++
			a.Seq = r.Seq
		}
		seen = append(seen, a)
	}
	return seen
}

// attach adds the attachments that are alive, or those that are not. The newest come first, because an older one may
// have had the same address before.
func (r *rebuild) attach(all []Attachment, alive bool) {
	for _, a := range newestFirst(all) {
		if r.known[a.ID] || r.in.Alive(a) != alive {
			continue
		}
		a.Addresses = once(a.Addresses)
		switch {
		case alive && a.Since.BootID == "": // a source that knows no boots: the namespace is there, so the life is of this one
			a.Since.BootID = r.in.Now.BootID
		case !alive && a.follows() && !r.in.Complete: // as of a reservation
			a.Since.BootID = ""
		}
		if r.take(a.ID.Network, a.Addresses, a.Holder()) {
			r.known[a.ID] = true
			r.newest[a.Owner] = max(r.newest[a.Owner], a.Seq)
			r.Attachments = append(r.Attachments, a)
		}
	}
}

// current returns the attachments of an incomplete state that may not be over: an address of one that is over is in another
// namespace, and none is in its own.
func (r *rebuild) current(all []Attachment) []Attachment {
	if r.in.Complete {
		return all
	}
	found := map[netIP][]Attachment{}
	for _, p := range r.in.Placeholders {
		for _, addr := range p.Addresses {
			at := netIP{p.ID.Network, addr}
			found[at] = append(found[at], p)
		}
	}
	explained := r.explained()
	return slices.DeleteFunc(slices.Clone(all), func(a Attachment) bool {
		elsewhere := ""
		for _, addr := range a.Addresses {
			for _, p := range found[netIP{a.ID.Network, addr}] {
				if inSameNetNS(p, a) {
					return false
				}
				of, known := explained[place{p.NetNS.Dev, p.NetNS.Inode, addr}]
				if !known || of == a.ID.Network { // else an address of a network that overlaps
					elsewhere = fmt.Sprintf("%s of %s, which is in %s", addr, a.Holder(), p.NetNS.Path)
				}
			}
		}
		if elsewhere != "" {
			r.Dropped = append(r.Dropped, elsewhere)
		}
		return elsewhere != ""
	})
}

// place is an address in a network namespace.
type place struct {
	dev, inode uint64
	addr       netip.Addr
}

// explained returns the network of each address in a namespace that a source names.
func (r *rebuild) explained() map[place]string {
	of := map[place]string{}
	for _, all := range [][]Attachment{r.in.Unreferenced.Attachments, r.in.Read.Attachments, r.in.Seen} {
		for _, a := range all {
			for _, addr := range a.Addresses {
				of[place{a.NetNS.Dev, a.NetNS.Inode, addr}] = a.ID.Network
			}
		}
	}
	return of
}

func inSameNetNS(a, b Attachment) bool {
	return a.NetNS.Dev == b.NetNS.Dev && a.NetNS.Inode == b.NetNS.Inode
}

// inUse returns the reservations with an address that the namespace of the life that ended still has. Their owners come
// back to the addresses once the namespace is gone, so no placeholder takes them.
func (r *rebuild) inUse(all []Reservation) []Reservation {
	return slices.DeleteFunc(slices.Clone(all), func(s Reservation) bool {
		ended := Attachment{NetNS: s.NetNS, Since: Moment{BootID: s.BootID}}
		return !r.in.Alive(ended) || !slices.ContainsFunc(r.in.Placeholders, func(a Attachment) bool {
			return inSameNetNS(a, ended) && overlap(a.Addresses, s.Addresses)
		})
	})
}

// overlap reports whether two lists have an address in common.
func overlap(a, b []netip.Addr) bool {
	return slices.ContainsFunc(a, func(addr netip.Addr) bool { return slices.Contains(b, addr) })
}

// addPlaceholders adds the addresses in network namespaces that no attachment of the namespace explains, in each
// network in which the address is free: the network of such an address is not known.
func (r *rebuild) addPlaceholders() {
	explained := map[place]bool{}
	for _, a := range r.Attachments {
		for _, addr := range a.Addresses {
			explained[place{a.NetNS.Dev, a.NetNS.Inode, addr}] = true
		}
	}
	for _, a := range r.in.Placeholders {
		a.Addresses = slices.DeleteFunc(slices.Clone(a.Addresses), func(addr netip.Addr) bool {
			_, held := r.holder[netIP{a.ID.Network, addr}]
			return held || explained[place{a.NetNS.Dev, a.NetNS.Inode, addr}]
		})
		r.Seq++
		a.Seq = r.Seq
		r.attach([]Attachment{a}, true)
	}
}

// reserve adds the newest reservation of each owner, unless a newer life of the owner is attached, which has claimed or
// dropped the reservation. Where records may be missing, the agent has to say again where an address is that follows.
func (r *rebuild) reserve(all []Reservation) {
	for _, s := range newestOf(all) {
		if s.Seq < r.newest[s.Owner] && !s.OnLoan() || r.kept[s.Owner] {
			continue
		}
		if r.take(s.Owner.Network, s.Addresses, "the reservation of "+s.Owner.String()) {
			r.kept[s.Owner] = true
			if s.Mode == Follow && !r.in.Complete {
				s.BootID = ""
			}
			r.Reservations = append(r.Reservations, s)
		}
	}
}

// take notes the holder of addresses. When one of them has a holder, take notes none and returns false.
func (r *rebuild) take(network string, addrs []netip.Addr, who string) bool {
	if len(addrs) == 0 {
		return false
	}
	for i, a := range addrs {
		if other, taken := r.holder[netIP{network, a}]; taken {
			r.Dropped = append(r.Dropped, fmt.Sprintf("%s of %s, which %s holds", a, who, other))
			for _, a := range addrs[:i] {
				delete(r.holder, netIP{network, a})
			}
			return false
		}
		r.holder[netIP{network, a}] = who
	}
	return true
}

// once returns addresses without repetitions: an interface may have an address twice, with two masks.
func once(addrs []netip.Addr) []netip.Addr {
	var all []netip.Addr
	for _, a := range addrs {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// newestOf returns the newest reservation of each owner.
func newestOf(all []Reservation) []Reservation {
	at := map[Owner]int{}
	var newest []Reservation
	for _, s := range all {
		i, found := at[s.Owner]
		switch {
		case !found:
			at[s.Owner] = len(newest)
			newest = append(newest, s)
		case s.Seq > newest[i].Seq:
			newest[i] = s
		}
	}
	return newest
}

// SameAddresses reports whether two lists hold the same addresses in any order.
func SameAddresses(a, b []netip.Addr) bool {
	return len(a) == len(b) && !slices.ContainsFunc(b, func(addr netip.Addr) bool { return !slices.Contains(a, addr) })
}
