package cni_test

import (
	gocmp "cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// happened is one operation of the model test: the verb, the answer, and the state before and
// after.
type happened struct {
	verb          string // ADD, DEL, GC, or an event of the machine
	of            sandbox
	valid         []sandbox // of a GC
	rollback      bool      // of a DEL
	orphan        bool      // the caller of an ADD is gone
	busy          bool      // another process holds the lock
	damage        string    // of the state file before the verb
	hopeless      bool      // the damage could not be repaired
	changed, kept bool      // the file changed, and a copy of the damaged one is kept
	code          uint
	took          time.Duration // real time
	addrs         []netip.Addr
	now           reservation.Moment
	alive         func(reservation.Attachment) bool
	inUse         func([]netip.Addr) bool // a namespace that exists has one of the addresses
	inside        map[string][]netip.Addr // the addresses in each namespace that exists, after the step
	before, after state
	beforeAdd     map[reservation.Owner]reservation.Reservation // before the ADD that is rolled back
	expired       func(reservation.Reservation) bool            // by true time, not by any clock
	// refused returns how long ago, in true time, a successor was first turned away.
	refused func(refusal) (time.Duration, bool)
	// freed are the addresses that were freed since the last boot, and when.
	freed map[netip.Addr]freed
	// had are the addresses that each life of a pod had last.
	had     map[string][]netip.Addr
	setting setting
}

// freed is when an address was freed. It is certain when a pod had used it until then.
type freed struct {
	up      time.Duration
	certain bool
	life    string
}

// refusal is a wait of one successor for one predecessor.
type refusal struct {
	by  reservation.AttachmentID
	uid string
}

// rules are the ten rules of docs/design/0001-architecture.md, as far as one step can show
// them. cmd/ipam-plugin tests what the plugin links (rule 7).
var rules = []struct {
	name    string
	check   func(happened) error
	rebuilt bool // the rule holds for a step that rebuilt the state, too
}{
	{"1: an address has at most one attachment", oneHolder, true},
	{"2: a reserved address goes only to its owner", keptForOwner, false},
	{"2: reservations stay within their share", staysWithinTheShare, false},
	{"2: reservations are counted", counted, true},
	{"3: a DEL ends exactly the attachment it names", endsOnlyItsOwn, false},
	{"4: an owner that returns in time gets all its addresses", returns, false},
	{"4: no address is shared with a living predecessor", waits, false},
	{"4: no two network namespaces have one address", onceInside, true},
	{"5: a verb that fails has not happened", nothingHalf, false},
	{"6: a missing or damaged state file is never taken for a fresh one", neverFresh, true},
	{"7: every wait has a bound", bounded, true},
	{"7: no verb needs the agent", needsNoAgent, false},
	{"8: a rollback puts a claimed reservation back and makes none", undone, false},
	{"9: clock steps and reboots move no deadline", inTime, false},
	{"10: a pod that asks for nothing leaves nothing behind", leavesNothing, false},
	{"a released address waits while others are free", releasedWaits, false},
	{"a new sandbox of the same pod gets its addresses", sameLife, false},
}

// oneHolder is a stricter rule 1: no address is attached or reserved twice.
func oneHolder(h happened) error {
	holder := map[netip.Addr]string{}
	take := func(who string, addrs []netip.Addr) error {
		for _, a := range addrs {
			if holder[a] != "" {
				return fmt.Errorf("%s is held by %s and by %s", a, holder[a], who)
			}
			holder[a] = who
		}
		return nil
	}
	for id, a := range h.after.Attached {
		if err := take("attachment "+id.String(), a.Addresses); err != nil {
			return err
		}
	}
	for o, r := range h.after.Reserved {
		if err := take("reservation of "+o.String(), r.Addresses); err != nil {
			return err
		}
	}
	return nil
}

// keptForOwner is rule 2. The set was full when a reservation gives way to a pod. The reservation is one of the namespace
// that holds most, and there the one that ends soonest. A reservation with mode "required" gives way only when its
// namespace has no other.
func keptForOwner(h happened) error {
	for o, r := range h.before.Reserved {
		if _, still := h.after.Reserved[o]; still || h.expired(r) || (h.verb == "ADD" && h.of.owner() == o) {
			continue
		}
		if h.verb != "ADD" || h.code != 0 {
			if err := gaveWay(h, r); err != nil {
				return err
			}
			continue
		}
		if h.setting.refuse {
			return fmt.Errorf("the reservation of %s gave way to a pod, and none may", o)
		}
		if free := freeIPv4(h.before, h.of.owner(), h); len(free) > 0 {
			return fmt.Errorf("the reservation of %s gave way although %v were free", o, free)
		}
		if err := gaveWayToPod(h, r); err != nil {
			return err
		}
	}
	return nil
}

// gaveWayToPod checks that no other reservation had to give way before one did.
func gaveWayToPod(h happened, r reservation.Reservation) error {
	others := h.unlapsed(h.before, h.of.owner())
	of, loses, asks := perNamespace(others), r.Owner.Namespace, h.of.namespace()
	for other, r2 := range others {
		if h.inUse(r2.Addresses) {
			continue
		}
		if n := of[other.Namespace]; n > of[loses] || loses != asks && other.Namespace == asks && n == of[loses] {
			return fmt.Errorf("namespace %s lost a reservation to a pod of %s, and reservations are %v", loses, asks, of)
		}
		earlier := gocmp.Or(gocmp.Compare(r2.Mode, r.Mode), gocmp.Compare(r2.Deadline.Left(h.now), r.Deadline.Left(h.now))) < 0
		if other.Namespace == loses && earlier {
			return fmt.Errorf("the reservation of %s (%s) gave way before that of %s (%s)", r.Owner, r.Mode, other, r2.Mode)
		}
	}
	return nil
}

// freeIPv4 lists the addresses that an ADD of the owner could take while no reservation gives
// way.
func freeIPv4(s state, o reservation.Owner, h happened) []netip.Addr {
	var free []netip.Addr
	for _, a := range h.setting.addresses() {
		held := h.inUse([]netip.Addr{a})
		for _, at := range s.Attached {
			held = held || slices.Contains(at.Addresses, a) && (at.Owner != o || h.alive(at))
		}
		for owner, r := range s.Reserved {
			held = held || slices.Contains(r.Addresses, a) && owner != o && !h.expired(r)
		}
		if !held {
			free = append(free, a)
		}
	}
	return free
}

// endsOnlyItsOwn is rule 3, for DEL and GC.
func endsOnlyItsOwn(h happened) error {
	if h.code != 0 {
		return nil // rule 5 covers it
	}
	var ends func(reservation.AttachmentID) bool
	switch h.verb {
	case "DEL":
		ends = func(id reservation.AttachmentID) bool { return id == h.of.attachment() }
	case "GC":
		ends = func(id reservation.AttachmentID) bool {
			a := h.before.Attached[id]
			has := h.alive(a) && slices.ContainsFunc(h.inside[a.NetNS.Path], func(addr netip.Addr) bool { return slices.Contains(a.Addresses, addr) })
			return !has && !slices.ContainsFunc(h.valid, func(s sandbox) bool { return s.attachment() == id })
		}
	default:
		return nil
	}
	touched := map[reservation.Owner]uint64{} // the newest life that ended
	for id, a := range h.before.Attached {
		after, still := h.after.Attached[id]
		if ends(id) {
			if still {
				return fmt.Errorf("%s did not end %s", h.verb, id)
			}
			touched[a.Owner] = max(touched[a.Owner], a.Seq)
		} else if diff := cmp.Diff(a, after, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			return fmt.Errorf("%s touched %s (-before +after):\n%s", h.verb, id, diff)
		}
	}
	for o, r := range h.before.Reserved {
		if seq, ended := touched[o]; ended && seq > r.Seq {
			continue
		}
		if _, still := h.after.Reserved[o]; !still && (h.expired(r) || gaveWay(h, r) == nil) {
			continue
		}
		if diff := cmp.Diff(r, h.after.Reserved[o], cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			return fmt.Errorf("%s touched the reservation of %s (-before +after):\n%s", h.verb, o, diff)
		}
	}
	for o, r := range h.after.Reserved {
		for _, a := range h.after.Attached {
			if a.Owner == o && a.Seq > r.Seq {
				return fmt.Errorf("%s is reserved for %s, whose newer life %s runs", r.Addresses, o, a.ID)
			}
		}
	}
	return nil
}

// returns is the first half of rule 4.
func returns(h happened) error {
	if h.verb != "ADD" || h.code != 0 {
		return nil
	}
	if r, found := h.before.Reserved[h.of.owner()]; found && !h.expired(r) && r.Seq == h.newestSeq() && !h.inUse(r.Addresses) {
		if !slices.Equal(r.Addresses, h.addrs) {
			return fmt.Errorf("%s came back in time to %v and got %v", h.of.owner(), r.Addresses, h.addrs)
		}
	}
	for _, a := range h.before.Attached {
		if a.Owner == h.of.owner() && !h.alive(a) && a.Seq == h.newestSeq() && !slices.Equal(a.Addresses, h.addrs) {
			return fmt.Errorf("%s succeeded to %v and got %v", h.of.owner(), a.Addresses, h.addrs)
		}
	}
	if len(h.addrs) != 2 {
		return fmt.Errorf("got %v, want one address of each of the two sets", h.addrs)
	}
	return nil
}

// newestSeq returns the number of the owner's latest life. A lapsed reservation, which the
// agent may free at any time, does not count.
func (h happened) newestSeq() uint64 {
	var seq uint64
	if r, found := h.before.Reserved[h.of.owner()]; found && !h.expired(r) {
		seq = r.Seq
	}
	for _, a := range h.before.Attached {
		if a.Owner == h.of.owner() {
			seq = max(seq, a.Seq)
		}
	}
	return seq
}

// newestAlive returns the latest life of the owner, if it is alive.
func (h happened) newestAlive() (reservation.Attachment, bool) {
	for _, a := range h.before.Attached {
		if a.Owner == h.of.owner() && a.ID != h.of.attachment() && h.alive(a) && a.Seq == h.newestSeq() {
			return a, true
		}
	}
	return reservation.Attachment{}, false
}

// waits is the second half of rule 4.
func waits(h happened) error {
	if h.verb != "ADD" {
		return nil
	}
	for _, a := range h.before.Attached {
		if a.Owner != h.of.owner() || a.ID == h.of.attachment() || !h.alive(a) {
			continue
		}
		for _, got := range h.addrs {
			if slices.Contains(a.Addresses, got) {
				return fmt.Errorf("%s shares %s with %s, which is alive", h.of.id, got, a.ID)
			}
		}
	}
	by, found := h.mustWait()
	switch {
	case !found && h.code == 11 && !h.orphan && !h.busy:
		return fmt.Errorf("%s was told to wait for no living predecessor", h.of.id)
	case found && h.code == 0 && h.of.required():
		return fmt.Errorf("%s insists on its addresses and got others", h.of.id)
	case found && h.code == 0 && h.waitedFor(by) < predecessorWait:
		return fmt.Errorf("%s took others before the wait was over", h.of.id)
	}
	return nil
}

// onceInside is rule 4 on the namespaces themselves, whatever the state says.
func onceInside(h happened) error {
	has := map[netip.Addr]string{}
	for path, addrs := range h.inside {
		for _, a := range addrs {
			if other, found := has[a]; found && other != path {
				return fmt.Errorf("%s is in %s and in %s", a, other, path)
			}
			has[a] = path
		}
	}
	return nil
}

// mustWait returns the predecessor that an ADD has to wait for: none where neither life
// asks for anything (rule 10). A life that ended counts while a namespace has its addresses.
func (h happened) mustWait() (reservation.AttachmentID, bool) {
	if living, found := h.newestAlive(); found {
		return living.ID, h.of.asks() || living.Retain > 0 || living.Mode == reservation.Required
	}
	if _, again := h.before.Attached[h.of.attachment()]; again {
		return reservation.AttachmentID{}, false
	}
	o := h.of.owner()
	r, found := h.before.Reserved[o]
	return endedLife(o, r), found && !h.expired(r) && r.Seq == h.newestSeq() && h.inUse(r.Addresses)
}

// endedLife returns the attachment that left a reservation.
func endedLife(o reservation.Owner, r reservation.Reservation) reservation.AttachmentID {
	return reservation.AttachmentID{Network: o.Network, ContainerID: r.ContainerID, IfName: o.IfName}
}

// waitedFor returns how long ago a predecessor first turned this successor away.
func (h happened) waitedFor(by reservation.AttachmentID) time.Duration {
	if since, found := h.refused(refusal{by, h.of.uid}); found {
		return since
	}
	return 0
}

// nothingHalf is rule 5 for a verb that returns an error. A failing ADD may leave only the mark
// that a successor was refused.
func nothingHalf(h happened) error {
	if h.orphan && h.code == 0 {
		return fmt.Errorf("an ADD whose caller is gone allocated %v", h.addrs)
	}
	if h.code == 0 {
		return nil
	}
	ignore := cmpopts.IgnoreFields(reservation.Attachment{}, "RefusedSince", "RefusedUID")
	ignoreToo := cmpopts.IgnoreFields(reservation.Reservation{}, "RefusedSince", "RefusedUID")
	if diff := cmp.Diff(h.before, h.after, ignore, ignoreToo, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		return fmt.Errorf("%s failed with code %d and left (-before +after):\n%s", h.verb, h.code, diff)
	}
	return nil
}

// releasedWaits is no rule of the ten. A new pod gets an address that a pod used up to some seconds before only when no
// address is free that has waited longer.
func releasedWaits(h happened) error {
	if h.verb != "ADD" || h.code != 0 {
		return nil
	}
	got := h.addrs[0]
	recent := func(a netip.Addr) bool {
		f, found := h.freed[a]
		return found && h.now.Up-f.up < reservation.DefaultReleaseDelay
	}
	if held(h.before, got) || !recent(got) || !h.freed[got].certain || h.freed[got].life == lifeOf(h.of.uid, h.of.ifName) {
		return nil // it was the owner's, or gave way, or has waited
	}
	for _, a := range h.setting.addresses() {
		if !held(h.before, a) && !recent(a) && !h.inUse([]netip.Addr{a}) {
			return fmt.Errorf("%s got %s, freed %s before, although %s was free", h.of.id, got, h.now.Up-h.freed[got].up, a)
		}
	}
	return nil
}

// held reports whether an address is attached or reserved.
func held(s state, addr netip.Addr) bool {
	for _, a := range s.Attached {
		if slices.Contains(a.Addresses, addr) {
			return true
		}
	}
	for _, r := range s.Reserved {
		if slices.Contains(r.Addresses, addr) {
			return true
		}
	}
	return false
}

func lifeOf(uid, ifName string) string { return uid + " " + ifName }

// sameLife is no rule of the ten. A pod whose sandbox is made again gets the addresses that it had, unless another one has had
// them since.
func sameLife(h happened) error {
	want := h.had[lifeOf(h.of.uid, h.of.ifName)]
	if h.verb != "ADD" || h.code != 0 || len(want) == 0 || h.inUse(want) || slices.ContainsFunc(want, func(a netip.Addr) bool { return held(h.before, a) }) {
		return nil
	}
	if _, reserved := h.before.Reserved[h.of.owner()]; reserved {
		return nil
	}
	for _, a := range h.before.Attached {
		if a.Owner == h.of.owner() {
			return nil // which it succeeds
		}
	}
	if !slices.Equal(want, h.addrs) {
		return fmt.Errorf("%s had %v and got %v", h.of.uid, want, h.addrs)
	}
	return nil
}
