package lifecycle

import (
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// End deletes an attachment and reserves its addresses if PlanEnd says so. The attachment need not be in the
// state: an attachment that only another plugin's files name leaves a reservation too. The parameter rollback
// says that the ADD never became a running pod.
func End(tx *persistence.Tx, a reservation.Attachment, now reservation.Moment, rollback bool) (reservation.EndDecision, error) {
	in, err := gather(tx, a, now, rollback)
	if err != nil {
		return reservation.EndDecision{}, err
	}
	d := reservation.PlanEnd(in)
	return d, apply(tx, in, d)
}

// gather reads the facts for PlanEnd. The usage of the pool is read only for a new reservation, and reservations only
// when the share, or the quota of the namespace, is used up: an everyday DEL costs no scan.
func gather(tx *persistence.Tx, a reservation.Attachment, now reservation.Moment, rollback bool) (reservation.EndInput, error) {
	in := reservation.EndInput{Now: now, Attachment: a, Rollback: rollback}
	var err error
	if in.Newer, err = newerLife(tx, a); err != nil {
		return in, err
	}
	if in.DroppedTaken, err = droppedTaken(tx, a); err != nil {
		return in, err
	}
	if !in.NeedsShare() {
		return in, nil
	}
	usage, err := tx.PoolUsage(a.ID.Network)
	if err != nil || usage.Limits == nil {
		return in, err
	}
	in.Share, in.ReservedPods = &usage.Limits.Share, usage.Reserved
	if in.NeedsNamespace() {
		in.ReservedOfNamespace = tx.CountReservationsOf(a.ID.Network, a.Owner.Namespace)
	}
	if in.NeedsReserved() {
		in.Reserved, in.Held, err = underPressure(tx, a, now)
	}
	return in, err
}

// underPressure counts the reservations of a network by namespace. It returns the reservations that have lapsed, and
// those that may give way to the reservation of an attachment.
func underPressure(tx *persistence.Tx, a reservation.Attachment, now reservation.Moment) (reserved []reservation.Reservation, held map[string]int64, err error) {
	network := a.ID.Network
	held = tx.ReservationsByNamespace(network)
	lapsed, err := tx.LapsedReservations(network, now)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range lapsed {
		held[r.Owner.Namespace]--
	}
	own, found, err := tx.Reservation(a.Owner)
	if err != nil {
		return nil, nil, err
	}
	if found && !own.Deadline.Passed(now) {
		held[a.Owner.Namespace]--
	}
	reserved = lapsed
	for _, namespace := range reservation.GivesOne(held, a.Owner.Namespace) {
		// One of the first may be the owner's, and the others may have lapsed.
		some, err := tx.WaitingLongest(network, namespace, now, len(lapsed)+2)
		if err != nil {
			return nil, nil, err
		}
		reserved = append(reserved, reservation.Unlapsed(some, now)...)
	}
	return reserved, held, nil
}

// newerLife reports whether a newer life of the owner is attached or reserved. An address on loan is the owner's, whatever
// another life has.
func newerLife(tx *persistence.Tx, a reservation.Attachment) (bool, error) {
	if !a.Owner.Named() {
		return false, nil
	}
	r, found, err := tx.Reservation(a.Owner)
	if err != nil || (found && (r.Seq > a.Seq || r.OnLoan())) {
		return true, err
	}
	others, err := tx.AttachmentsOf(a.Owner)
	return slices.ContainsFunc(others, func(o reservation.Attachment) bool { return o.Seq > a.Seq }), err
}

// droppedTaken reports whether a holder other than the attachment has an address of the reservation that the
// attachment's ADD dropped.
func droppedTaken(tx *persistence.Tx, a reservation.Attachment) (bool, error) {
	if a.Dropped == nil {
		return false, nil
	}
	others := slices.DeleteFunc(slices.Clone(a.Dropped.Addresses), func(addr netip.Addr) bool { return slices.Contains(a.Addresses, addr) })
	for _, addr := range others {
		if held, err := tx.Held(a.ID.Network, addr); held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// apply writes the decision. The attachment goes first, because the reservation takes its addresses.
func apply(tx *persistence.Tx, in reservation.EndInput, d reservation.EndDecision) error {
	a, network := in.Attachment, in.Attachment.ID.Network
	if err := tx.DeleteAttachment(a.ID); err != nil {
		return err
	}
	if d.Reserve == nil && !in.Rollback { // the addresses of a rolled-back ADD never were in use
		if err := tx.PutReleased(a.Release(in.Now), in.Now); err != nil {
			return err
		}
	}
	for _, r := range d.Lapsed {
		if err := free(tx, r, in.Now); err != nil {
			return err
		}
	}
	if d.Refused {
		return tx.CountRefused(network)
	}
	if g := d.Displaced; g != nil {
		if err := tx.Displace(g.Owner); err != nil {
			return err
		}
		if err := tx.PutReleased(g.Release(), in.Now); err != nil {
			return err
		}
	}
	if d.Reserve == nil {
		return nil
	}
	return tx.PutReservation(*d.Reserve)
}
