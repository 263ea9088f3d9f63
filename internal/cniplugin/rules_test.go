package cniplugin_test

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// happened is one operation of the model test: what was done, the answer, and the
// state on either side of it.
type happened struct {
	verb          string // ADD, DEL, GC, or what the world did
	of            sandbox
	valid         []sandbox // of a GC
	rollback      bool      // of a DEL
	orphan        bool      // the caller of an ADD is gone
	code          uint
	addrs         []netip.Addr
	now           reservation.Moment
	alive         func(reservation.Attachment) bool
	before, after state
	beforeAdd     map[reservation.Owner]reservation.Reservation // what the ADD that is rolled back found
	expired       func(reservation.Reservation) bool            // by true time, not by any clock
	// refused tells how long ago, in true time, a successor was first turned away.
	refused func(reservation.AttachmentID) (time.Duration, bool)
}

// rules are the ten rules of docs/design/0001-architecture.md, as far as one step
// can show them. Rules 5, 6 and 7 have tests of their own beside these.
var rules = []struct {
	name  string
	check func(happened) error
}{
	{"1: an address has at most one attachment", oneHolder},
	{"2: a reserved address goes to nobody but its owner", keptForOwner},
	{"3: a DEL ends exactly the attachment it names", endsOnlyItsOwn},
	{"4: an owner that returns in time gets all its addresses", returns},
	{"4: no address is shared with a living predecessor", waits},
	{"5: a verb that fails has not happened", nothingHalf},
	{"8: a rollback puts a claimed reservation back and makes none", undone},
	{"9: clock steps and reboots move no deadline", inTime},
	{"10: a pod that asks for nothing leaves nothing behind", leavesNothing},
}

// oneHolder is rule 1, stricter: neither attached nor reserved twice.
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

// keptForOwner is rule 2. A reservation that gives way under pressure is the one
// that ended soonest, and the set was full.
func keptForOwner(h happened) error {
	for o, r := range h.before.Reserved {
		if _, still := h.after.Reserved[o]; still || h.expired(r) || (h.verb == "ADD" && h.of.owner() == o) {
			continue
		}
		if h.verb != "ADD" || h.code != 0 {
			return fmt.Errorf("%s ended the reservation of %s", h.verb, o)
		}
		if free := freeIPv4(h.before, h.of.owner(), h); len(free) > 0 {
			return fmt.Errorf("the reservation of %s gave way although %v were free", o, free)
		}
		for other, r2 := range h.before.Reserved {
			if other != h.of.owner() && !h.expired(r2) && r2.Deadline.Left(h.now) < r.Deadline.Left(h.now) {
				return fmt.Errorf("the reservation of %s gave way, that of %s ends sooner", o, other)
			}
		}
	}
	return nil
}

// freeIPv4 lists what an ADD of the owner could take without anybody giving way.
func freeIPv4(s state, o reservation.Owner, h happened) []netip.Addr {
	var free []netip.Addr
	for a := netip.MustParseAddr("10.1.0.2"); a != netip.MustParseAddr("10.1.0.7"); a = a.Next() {
		held := false
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
	var ends func(reservation.AttachmentID) bool
	switch h.verb {
	case "DEL":
		ends = func(id reservation.AttachmentID) bool { return id == h.of.attachment() }
	case "GC":
		ends = func(id reservation.AttachmentID) bool {
			return !slices.ContainsFunc(h.valid, func(s sandbox) bool { return s.attachment() == id })
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
	if r, found := h.before.Reserved[h.of.owner()]; found && !h.expired(r) && r.Seq == newestSeq(h.before, h.of.owner()) {
		if !slices.Equal(r.Addresses, h.addrs) {
			return fmt.Errorf("%s came back in time to %v and got %v", h.of.owner(), r.Addresses, h.addrs)
		}
	}
	for _, a := range h.before.Attached {
		if a.Owner == h.of.owner() && !h.alive(a) && a.Seq == newestSeq(h.before, h.of.owner()) && !slices.Equal(a.Addresses, h.addrs) {
			return fmt.Errorf("%s succeeded to %v and got %v", h.of.owner(), a.Addresses, h.addrs)
		}
	}
	if len(h.addrs) != 2 {
		return fmt.Errorf("got %v, want one address of each of the two sets", h.addrs)
	}
	return nil
}

func newestSeq(s state, o reservation.Owner) uint64 {
	seq := s.Reserved[o].Seq
	for _, a := range s.Attached {
		if a.Owner == o {
			seq = max(seq, a.Seq)
		}
	}
	return seq
}

// waits is the second half of rule 4.
func waits(h happened) error {
	if h.verb != "ADD" {
		return nil
	}
	var living *reservation.Attachment
	for _, a := range h.before.Attached {
		if a.Owner == h.of.owner() && a.ID != h.of.attachment() && h.alive(a) {
			for _, got := range h.addrs {
				if slices.Contains(a.Addresses, got) {
					return fmt.Errorf("%s shares %s with %s, which is alive", h.of.id, got, a.ID)
				}
			}
			if a.Seq == newestSeq(h.before, h.of.owner()) {
				living = &a
			}
		}
	}
	var waited time.Duration
	if living != nil {
		if since, found := h.refused(living.ID); found {
			waited = since
		}
	}
	required := h.of.annotations[reservation.ModeAnnotation] == "required"
	switch {
	case h.code == 11 && !h.orphan && living == nil:
		return fmt.Errorf("%s was told to wait for nobody", h.of.id)
	case h.code == 0 && living != nil && required:
		return fmt.Errorf("%s insists on its addresses and got others", h.of.id)
	case h.code == 0 && living != nil && waited < time.Minute:
		return fmt.Errorf("%s took others before the wait was over", h.of.id)
	case h.code == 11 && !h.orphan && !required && waited >= time.Minute:
		return fmt.Errorf("%s waits without a bound", h.of.id)
	}
	return nil
}

// nothingHalf is rule 5 for a verb that returns an error. That a successor was
// refused is the one thing a failing ADD may leave.
func nothingHalf(h happened) error {
	if h.orphan && h.code == 0 {
		return fmt.Errorf("an ADD whose caller is gone allocated %v", h.addrs)
	}
	if h.code == 0 {
		return nil
	}
	ignore := cmpopts.IgnoreFields(reservation.Attachment{}, "RefusedSince")
	if diff := cmp.Diff(h.before, h.after, ignore, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		return fmt.Errorf("%s failed with code %d and left (-before +after):\n%s", h.verb, h.code, diff)
	}
	return nil
}

// undone is rule 8.
func undone(h happened) error {
	if !h.rollback {
		return nil
	}
	was, had := h.beforeAdd[h.of.owner()]
	is, has := h.after.Reserved[h.of.owner()]
	had = had && !h.expired(was)
	switch {
	case has && !had:
		return fmt.Errorf("the rollback reserved %v for %s", is.Addresses, h.of.owner())
	case had && !has:
		return fmt.Errorf("the rollback lost the reservation of %s", h.of.owner())
	case had && !cmp.Equal(was.Deadline, is.Deadline):
		return fmt.Errorf("the rollback moved the deadline of %s from %v to %v", h.of.owner(), was.Deadline, is.Deadline)
	case had && !slices.Equal(was.Addresses, is.Addresses):
		return fmt.Errorf("the rollback put %v back instead of %v", is.Addresses, was.Addresses)
	}
	return nil
}

// inTime is rule 9. Across boots only the wall clock can tell, so there it is only
// bounded.
func inTime(h happened) error {
	for o, r := range h.after.Reserved {
		left := r.Deadline.Left(h.now)
		if left < 0 || left > r.Deadline.For {
			return fmt.Errorf("%s has %s left of %s", o, left, r.Deadline.For)
		}
		if r.Deadline.From.BootID == h.now.BootID && (left == 0) != h.expired(r) {
			return fmt.Errorf("%s has %s left, and truly expired: %t", o, left, h.expired(r))
		}
	}
	return nil
}

// leavesNothing is what rule 10 means for the state.
func leavesNothing(h happened) error {
	if h.verb != "DEL" || h.rollback {
		return nil
	}
	a, known := h.before.Attached[h.of.attachment()]
	if r, found := h.after.Reserved[h.of.owner()]; known && a.Retain == 0 && found && r.Seq == a.Seq {
		return fmt.Errorf("%s asked for nothing and has %v reserved", h.of.owner(), r.Addresses)
	}
	return nil
}
