package cni_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// predecessorWait is what rule 4 promises.
const predecessorWait = time.Minute

// neverFresh is rule 6: a lost or damaged state is rebuilt with the addresses of every running
// pod, and the damaged file is kept. Otherwise no address is handed out.
func neverFresh(h happened) error {
	switch {
	case h.damage == "":
		return nil
	case h.hopeless && (h.changed || len(h.addrs) > 0):
		return fmt.Errorf("%s handed out %v or wrote although the state cannot be repaired", h.verb, h.addrs)
	case h.hopeless && h.verb == "ADD" && h.code != 5:
		return fmt.Errorf("ADD answered code %d although the state cannot be repaired", h.code)
	case h.hopeless, damages[h.damage].unseen && h.verb != "ADD": // a state is made only for addresses to keep
		return nil
	case !h.kept && !damages[h.damage].noBackup && !damages[h.damage].spare:
		return errors.New("the damaged file was not set aside")
	}
	holder := map[netip.Addr]reservation.AttachmentID{}
	for id, a := range h.after.Attached {
		for _, addr := range a.Addresses {
			holder[addr] = id
		}
	}
	for id, a := range h.before.Attached {
		if !h.alive(a) || (h.verb == "DEL" && id == h.of.attachment()) {
			continue
		}
		nameless := id
		nameless.ContainerID = reservation.NetNSPlaceholder(a.NetNS)
		for _, addr := range a.Addresses {
			if holder[addr] != id && holder[addr] != nameless {
				return fmt.Errorf("%s runs with %s, which is now of %q", id, addr, holder[addr])
			}
		}
	}
	return nil
}

// bounded is the last part of rule 7: no verb waits long, for the lock or anything else,
// and no ADD is told to try again forever.
func bounded(h happened) error {
	if h.took > bound {
		return fmt.Errorf("%s took %s", h.verb, h.took)
	}
	if h.busy && h.code != 11 {
		return fmt.Errorf("%s answered code %d although the state was locked", h.verb, h.code)
	}
	if h.verb != "ADD" || h.code != 11 || h.orphan || h.busy || h.damage != "" || h.of.required() {
		return nil // the wait begins again in a rebuilt state
	}
	if living, found := h.mustWait(); found && h.waitedFor(living) >= predecessorWait {
		return fmt.Errorf("%s still waits %s after the first refusal", h.of.id, h.waitedFor(living))
	}
	return nil
}

// needsNoAgent is the first part of rule 7, as far as the state shows it: addresses that the
// agent would have freed block no ADD.
func needsNoAgent(h happened) error {
	if h.verb != "ADD" || h.code != 100 {
		return nil
	}
	if free := freeIPv4(h.before, h.of.owner(), h); len(free) > 0 {
		return fmt.Errorf("ADD found no address although %v are free", free)
	}
	for o, r := range h.before.Reserved {
		if o != h.of.owner() && !h.setting.refuse && !h.inUse(r.Addresses) {
			return fmt.Errorf("ADD found no address although the reservation of %v could give way", r.Addresses)
		}
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
	case had && (was.UID != is.UID || was.ContainerID != is.ContainerID || was.Retain != is.Retain || was.Mode != is.Mode || was.Seq != is.Seq):
		return fmt.Errorf("the rollback put back %+v, it was %+v", is, was)
	}
	return nil
}

// inTime is rule 9. Across boots only the wall clock counts, so there the deadline is only
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

// leavesNothing is rule 10 as far as the state shows it.
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
