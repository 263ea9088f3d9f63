package reservation

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Records are attachments and reservations of one node.
type Records struct {
	Attachments  []Attachment
	Reservations []Reservation
}

// RebuildInput is what is left when the state of a node was lost or damaged.
type RebuildInput struct {
	Now Moment
	// Read is what the state held, as far as it could be read.
	Read Records
	// Complete tells that Read is all that the state held.
	Complete bool
	// Unreferenced are records that the state held at some time, perhaps not at the last.
	Unreferenced Records
	// Seen are attachments that others than the state know of, from the oldest to the
	// newest. What they do not know of an attachment is left empty.
	Seen []Attachment
	// Placeholders are addresses in live network namespaces, as nameless attachments. They count
	// where nothing else explains the address.
	Placeholders []Attachment
	// Alive reports whether the network namespace of an attachment is still there.
	Alive func(Attachment) bool
}

// RebuildDecision is the state to go on with.
type RebuildDecision struct {
	Records
	// Seq is the highest number of any record: the next ADD is a newer life.
	Seq uint64
	// Dropped says in words which records gave way to better founded ones.
	Dropped []string
}

// PlanRebuild makes a state out of what is left (rule 6). Where two claim one
// address, the order below decides; a record of an attachment is never combined with
// one of another.
func PlanRebuild(in RebuildInput) RebuildDecision {
	r := rebuild{in: in, holder: map[netIP]string{}, known: map[AttachmentID]bool{}, newest: map[Owner]uint64{}, kept: map[Owner]bool{}}
	seen := r.number()
	r.attach(seen, true)                        // others saw it, and it lives
	r.attach(in.Read.Attachments, true)         // the state said so, and it lives
	r.attach(in.Unreferenced.Attachments, true) // the state said so once, and it lives
	r.find()
	r.reserve(in.Read.Reservations)
	if !in.Complete {
		r.reserve(Unlapsed(in.Unreferenced.Reservations, in.Now)) // an outdated one costs an address for a while
	}
	r.attach(in.Read.Attachments, false) // its DEL is still to come
	r.attach(seen, false)
	return r.RebuildDecision
}

// netNSPrefix begins the container IDs of attachments of which only the namespace is
// known. No runtime makes such an ID.
const netNSPrefix = "netns:"

// NetNSPlaceholder returns the container ID under which addresses are held that were found in a
// namespace and that nothing else explains.
func NetNSPlaceholder(n NetNS) string { return netNSPrefix + strings.ToValidUTF8(n.Path, "?") }

// IsNetNSPlaceholder reports whether NetNSPlaceholder made the container ID.
func (id AttachmentID) IsNetNSPlaceholder() bool {
	return strings.HasPrefix(id.ContainerID, netNSPrefix)
}

// netIP is an address of one network.
type netIP struct {
	network string
	addr    netip.Addr
}

type rebuild struct {
	RebuildDecision
	in     RebuildInput
	holder map[netIP]string
	known  map[AttachmentID]bool
	newest map[Owner]uint64 // the highest Seq of an owner's attachments
	kept   map[Owner]bool   // who has a reservation
}

// number completes what others saw by what the state knew of the same attachment. The
// rest are newer lives than any that the state knew, unless they are over and the state
// would know of them.
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
		if was, found := byID[a.ID]; found && sameAddresses(was.Addresses, a.Addresses) {
			a = was
		} else if r.in.Alive(a) || !r.in.Complete {
			r.Seq++
			a.Seq = r.Seq
		}
		seen = append(seen, a)
	}
	return seen
}

// attach takes over the attachments that are alive, or are not; the newest first, whose
// addresses may have been those of an older one.
func (r *rebuild) attach(all []Attachment, alive bool) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Attachment) int { return cmp.Compare(b.Seq, a.Seq) })
	for _, a := range all {
		if r.known[a.ID] || r.in.Alive(a) != alive {
			continue
		}
		a.Addresses = once(a.Addresses)
		if r.take(a.ID.Network, a.Addresses, a.Holder()) {
			r.known[a.ID] = true
			r.newest[a.Owner] = max(r.newest[a.Owner], a.Seq)
			r.Attachments = append(r.Attachments, a)
		}
	}
}

// find holds what was found in namespaces and no attachment of the namespace explains, in
// each network in which it is free: networks may overlap.
func (r *rebuild) find() {
	type place struct {
		dev, inode uint64
		addr       netip.Addr
	}
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

// reserve takes over reservations, unless a newer life of the owner is attached: it has
// claimed this one, or gone on without it.
func (r *rebuild) reserve(all []Reservation) {
	for _, s := range newestOf(all) {
		if s.Seq < r.newest[s.Owner] || r.kept[s.Owner] {
			continue
		}
		if r.take(s.Owner.Network, s.Addresses, "the reservation of "+s.Owner.String()) {
			r.kept[s.Owner] = true
			r.Reservations = append(r.Reservations, s)
		}
	}
}

// take holds addresses, all of them or none.
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

// once returns addresses without those that are among them before: a namespace may have one
// twice, with two masks.
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

func sameAddresses(a, b []netip.Addr) bool {
	if len(a) != len(b) {
		return false
	}
	has := map[netip.Addr]bool{}
	for _, addr := range a {
		has[addr] = true
	}
	for _, addr := range b {
		if !has[addr] {
			return false
		}
	}
	return true
}
