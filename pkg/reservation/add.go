package reservation

import (
	"fmt"
	"net/netip"
	"time"
)

// AddInput is what an ADD knows before it decides.
type AddInput struct {
	Now   Moment
	ID    AttachmentID
	Owner Owner
	UID   string
	Mode  Mode
	// WantsRetention is what Attachment.WantsRetention says of the new life.
	WantsRetention bool
	// Existing is the attachment of the same ID, if there is one.
	Existing *Attachment
	// Earlier are the other live attachments of the owner.
	Earlier []Predecessor
	// Reserved is the owner's reservation, if there is one.
	Reserved *Reservation
	// Fits says why addresses cannot be handed out under the ranges of today: nil
	// when they can.
	Fits func([]netip.Addr) error
	// PredecessorWait bounds how long a successor waits for its predecessor's end.
	PredecessorWait time.Duration
}

// Predecessor is an earlier attachment of an owner.
type Predecessor struct {
	Attachment
	// Alive tells that its network namespace is still there.
	Alive bool
	// Failed tells that its ADD never became a running pod.
	Failed bool
}

// AddVerdict says what an ADD takes.
type AddVerdict uint8

const (
	// Refuse fails the ADD with AddDecision.Err; the zero value.
	Refuse AddVerdict = iota
	// Allocate takes free addresses.
	Allocate
	// Claim takes AddDecision.Addresses, which the owner had before.
	Claim
)

// AddDecision is the outcome of PlanAdd. RefusedBy must be stored although the
// ADD fails; everything else is carried out only when it does not.
type AddDecision struct {
	Verdict AddVerdict
	// Err says why the ADD is refused.
	Err error
	// Addresses are the ones to take with Claim.
	Addresses []netip.Addr
	// Claimed is the reservation that a rollback puts back; nil when there is none.
	Claimed *Reservation
	// Dropped is the reservation that is let go before its deadline, and not claimed; a
	// rollback puts it back.
	Dropped *Reservation
	// Ended are predecessors whose network namespace is gone.
	Ended []AttachmentID
	// DropReserved tells to delete the owner's reservation: it is claimed, lapsed
	// or of no use any more.
	DropReserved bool
	// RefusedBy is the living predecessor that was not yet marked as refusing this life.
	RefusedBy *AttachmentID
	// Reason says in words why the addresses are not the ones the owner had, or
	// which they are; "" for an ordinary first ADD.
	Reason string
}

// PlanAdd decides what an ADD may take: rules 3 and 4 for the owner itself. That
// nobody else gets a held address is the business of the address index.
func PlanAdd(in AddInput) AddDecision {
	if in.Existing != nil {
		first := in.Existing.Addresses[:min(1, len(in.Existing.Addresses))] // host-local's words, which stop at the first
		return AddDecision{Err: fmt.Errorf("failed to allocate for range 0: %s has been allocated to %s, %w", join(first), in.Existing.ID.ContainerID, ErrDuplicate)}
	}
	d := AddDecision{Verdict: Allocate, Ended: endedOf(in.Earlier)}
	if living := newestLife(in); living != nil {
		return besides(in, d, living)
	}
	return claim(in, d)
}

// newestLife returns the living predecessor if it is the latest life of the owner:
// the one whose addresses the owner would come back to.
func newestLife(in AddInput) *Predecessor {
	living, dead := newest(in.Earlier, true), newest(in.Earlier, false)
	switch {
	case living == nil,
		dead != nil && dead.Seq > living.Seq,
		in.Reserved != nil && in.Reserved.Seq > living.Seq && !in.Reserved.Deadline.Passed(in.Now):
		return nil
	}
	return living
}

// besides lets an ADD take a free address beside a living predecessor, at once where
// neither life asks for anything: there is nothing to come back to, and nobody waits longer
// than with host-local (rule 10). Otherwise it refuses while the predecessor may still end in
// time. A wait is of one successor: a later one begins its own.
func besides(in AddInput, d AddDecision, living *Predecessor) AddDecision {
	refused := living.RefusedSince != nil && living.RefusedUID == in.UID
	waited := refused && in.Now.Since(*living.RefusedSince) >= in.PredecessorWait
	switch {
	case !in.WantsRetention && !living.WantsRetention():
		d.Reason = living.Holder() + " of the same name still has its network namespace, and neither asks for a reservation: took a free address"
	case waited && in.Mode != Required:
		d.Reason = fmt.Sprintf("%s of the same name still had its network namespace after %s: took a free address", living.Holder(), in.PredecessorWait)
	default:
		d = AddDecision{Err: fmt.Errorf("%s of the same name still has its network namespace %s and holds %s: %w",
			living.Holder(), living.NetNS.Path, join(living.Addresses), ErrPredecessor)}
		if !refused {
			d.RefusedBy = &living.ID
		}
		return d
	}
	if d.DropReserved = in.Reserved != nil; d.DropReserved && !in.Reserved.Deadline.Passed(in.Now) {
		d.Dropped = in.Reserved
	}
	return d
}

// claim takes the owner's own addresses, from its reservation or from a
// predecessor that is gone, if there are any and they can be handed out.
func claim(in AddInput, d AddDecision) AddDecision {
	own, back, dead := (*Reservation)(nil), (*Reservation)(nil), newest(in.Earlier, false)
	switch {
	case in.Reserved != nil && in.Reserved.Deadline.Passed(in.Now):
		d.DropReserved = true
		d.Reason = fmt.Sprintf("the reservation of %s had lapsed", join(in.Reserved.Addresses))
	case in.Reserved != nil && (dead == nil || in.Reserved.Seq > dead.Seq):
		own, back, d.DropReserved = in.Reserved, in.Reserved, true
	}
	if own == nil && dead != nil { // it ended unseen: its reservation begins and is claimed at once
		own = reserve(dead.Attachment, Deadline{From: in.Now, For: dead.Retain}, "").Reserve
		back, d.DropReserved = own, in.Reserved != nil
		if dead.Failed { // and is undone with this ADD: what is kept is what there was before it
			back, d.Dropped = dead.Claimed, dead.Dropped
		}
	}
	if own == nil {
		return d
	}
	if back != nil && back.Deadline.For == 0 {
		back = nil
	}
	if err := in.Fits(own.Addresses); err != nil {
		return outgrown(in, d, own, back, err)
	}
	d.Verdict, d.Addresses, d.Claimed, d.Reason = Claim, own.Addresses, back, "same owner came back"
	return d
}

// outgrown handles addresses that the configured ranges do not have any more.
func outgrown(in AddInput, d AddDecision, own, back *Reservation, why error) AddDecision {
	if in.Mode == Required {
		return AddDecision{Err: fmt.Errorf("%s of %s cannot be handed out: %w: %w", join(own.Addresses), in.Owner, why, ErrRequired)}
	}
	if back != nil {
		d.Dropped = back
	}
	d.Reason = fmt.Sprintf("had %s, which cannot be handed out any more (%v): took a free address", join(own.Addresses), why)
	return d
}

// newest returns the newest predecessor that is alive, or is not.
func newest(earlier []Predecessor, alive bool) *Predecessor {
	var found *Predecessor
	for i := range earlier {
		if p := &earlier[i]; p.Alive == alive && (found == nil || p.Seq > found.Seq) {
			found = p
		}
	}
	return found
}

func endedOf(earlier []Predecessor) []AttachmentID {
	var ids []AttachmentID
	for _, p := range earlier {
		if !p.Alive {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
