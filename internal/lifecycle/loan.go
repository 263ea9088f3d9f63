package lifecycle

import (
	"fmt"
	"net/netip"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// LoanFacts is what the state of a node has about the addresses of an owner that follows.
type LoanFacts struct {
	// Record is what loan.PlanNode plans with. It is confirmed when there is nothing to confirm.
	Record loan.Record
	// Own tells that the state has the addresses for the owner, and has not lent them.
	Own bool
	// Attached tells that a life of the owner has them, since the node started.
	Attached bool
	// Taken tells that another owner has one of them.
	Taken bool
	// Addresses are those asked about, or else the ones that the state has for the owner.
	Addresses []netip.Addr
	// Ended is the network namespace of the life that ended, which may still have the addresses: it is no life that Attached
	// counts, and no other pod may have the addresses meanwhile. Empty for none of this boot.
	Ended reservation.NetNS

	reserved    *reservation.Reservation
	other       *reservation.Reservation // of the owner, with other addresses
	attachments []reservation.Attachment // those of earlier boots have ended
}

// GatherLoan reads what the state has about addresses of an owner. Without addresses it asks about the owner's.
func GatherLoan(tx *persistence.Tx, owner reservation.Owner, addrs []netip.Addr, now reservation.Moment) (f LoanFacts, err error) {
	r, found, err := tx.Reservation(owner)
	if err != nil {
		return f, err
	}
	all, err := tx.AttachmentsOf(owner)
	if err != nil {
		return f, err
	}
	f.Addresses = addrs
	if len(addrs) == 0 {
		f.Addresses = newestAddresses(r, all)
	}
	f.Record.Confirmed = true
	if found {
		f.other = &r
	}
	if found && reservation.SameAddresses(r.Addresses, f.Addresses) {
		f.reserved, f.other, f.Own = &r, nil, r.Lent == 0
		f.Record = loan.Record{Lent: r.Lent, Guest: r.Guest, Confirmed: r.BootID == now.BootID}
		if f.Record.Confirmed {
			f.Ended = r.NetNS
		}
	}
	for _, a := range all {
		if !reservation.SameAddresses(a.Addresses, f.Addresses) {
			continue
		}
		f.attachments, f.Own = append(f.attachments, a), true
		f.Attached = f.Attached || a.Since.BootID == now.BootID
		f.Record = loan.Record{Guest: a.Guest, Confirmed: f.Attached}
	}
	if !f.Own && f.reserved == nil {
		f.Taken, err = anyHeld(tx, owner.Network, f.Addresses)
	}
	return f, err
}

// newestAddresses returns the addresses of the newest life of an owner.
func newestAddresses(r reservation.Reservation, all []reservation.Attachment) []netip.Addr {
	addrs, seq := r.Addresses, r.Seq
	for _, a := range all {
		if a.Seq > seq {
			addrs, seq = a.Addresses, a.Seq
		}
	}
	return addrs
}

func anyHeld(tx *persistence.Tx, network string, addrs []netip.Addr) (bool, error) {
	for _, addr := range addrs {
		if held, err := tx.Held(network, addr); held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// WriteLoan carries out a step with the verb loan.Write: it writes the Record of the addresses of an owner, unless a pod has
// them that must not. It promises: the next step relies on it. A life of an earlier boot has ended.
func WriteLoan(tx *persistence.Tx, owner reservation.Owner, addrs []netip.Addr, step loan.Step, now reservation.Moment) error {
	f, err := GatherLoan(tx, owner, addrs, now)
	if err != nil {
		return err
	}
	holds := step.Reserve || step.Record.Lent != 0 || step.Record.Guest != 0
	switch {
	case step.Verb != loan.Write || !owner.Named() || len(f.Addresses) == 0:
		return fmt.Errorf("write loan of %s: no step that writes, no owner or no addresses", owner)
	case step.Unattached && f.Attached:
		return fmt.Errorf("write loan of %s: a pod of it has %v on this node: its end comes first: %w", owner, f.Addresses, reservation.ErrHeld)
	case holds && f.Taken:
		return fmt.Errorf("write loan of %s: another pod has one of %v on this node: %w", owner, f.Addresses, reservation.ErrHeld)
	}
	tx.Promise()
	if f.Attached && step.Record.Lent == 0 {
		return renewAttached(tx, f, step.Record.Guest)
	}
	return f.write(tx, owner, step, now)
}

// renewAttached writes the epoch of a guest whose pod runs.
func renewAttached(tx *persistence.Tx, f LoanFacts, guest int64) error {
	for _, a := range f.attachments {
		if a.Guest == guest {
			continue
		}
		if a.Guest = guest; a.Claimed != nil {
			a.Claimed.Guest = guest
		}
		if err := tx.PutAttachment(a); err != nil {
			return err
		}
	}
	return nil
}

// write replaces what the state has about the addresses. An attachment ends with it: of an earlier boot, or of a pod on a node
// that was taken for dead, whose addresses are lent.
func (f LoanFacts) write(tx *persistence.Tx, owner reservation.Owner, step loan.Step, now reservation.Moment) error {
	r, err := f.next(tx, owner, step, now)
	if err != nil {
		return err
	}
	for _, a := range f.attachments {
		if err := tx.DeleteAttachment(a.ID); err != nil {
			return err
		}
	}
	if f.reserved != nil {
		if err := tx.TakeReservation(owner); err != nil {
			return err
		}
	}
	ended := f.Record.Guest != 0 && step.Record.Guest == 0 || f.Record.Lent != 0 && step.Record.Lent == 0
	switch {
	case step.Reserve, r.OnLoan(), !ended && f.Own:
		if f.other != nil {
			if err := free(tx, *f.other, now); err != nil {
				return err
			}
		}
		return tx.PutReservation(r)
	case ended && f.Record.Guest == 0:
		return tx.PutReleased(r.Release(), now)
	}
	return nil
}

// next returns the reservation of the addresses with the new Record.
func (f LoanFacts) next(tx *persistence.Tx, owner reservation.Owner, step loan.Step, now reservation.Moment) (r reservation.Reservation, err error) {
	r = reservation.Reservation{Owner: owner, Addresses: f.Addresses, Deadline: reservation.Deadline{From: now}}
	if f.reserved != nil {
		r = *f.reserved
	}
	for _, a := range f.attachments {
		r.UID, r.ContainerID, r.Addresses, r.NetNS, r.BootID = a.UID, a.ID.ContainerID, a.Addresses, a.NetNS, a.Since.BootID
	}
	if r.BootID != now.BootID {
		r.NetNS, r.RefusedSince, r.RefusedUID = reservation.NetNS{}, nil, ""
	}
	r.BootID, r.Lent, r.Guest = now.BootID, step.Record.Lent, step.Record.Guest
	r.Mode, r.Retain, r.Deadline.For = reservation.Follow, reservation.Forever, reservation.Forever
	back := f.Record.Lent != 0 && step.Record.Lent == 0
	if back {
		r.Deadline.From = now // what gave up the reservation of before does not mean this one
	}
	if back || f.Record.Guest != step.Record.Guest { // the container that had the addresses last may be elsewhere
		r.ContainerID = ""
	}
	r.Seq, err = tx.NextSeq() // of several versions, a rebuild takes this one
	return r, err
}
