package reservation

import (
	"fmt"
	"net/netip"
	"time"
)

// AddInput holds the facts that an ADD knows before it decides.
type AddInput struct {
	Now   Moment
	ID    AttachmentID
	Owner Owner
	UID   string
	Mode  Mode
	// WantsRetention is the value of Attachment.WantsRetention for the new life.
	WantsRetention bool
	// Existing is the attachment with the same ID; nil when there is none.
	Existing *Attachment
	// Earlier are the other attachments of the owner.
	Earlier []Predecessor
	// Reserved is the owner's reservation; nil when there is none.
	Reserved *Reservation
	// ReservedInUse is true while the network namespace of the life that ended exists and has an address of Reserved.
	ReservedInUse bool
	// Fits returns nil when the configured ranges can hand out addresses, or can tell a guest its masks and gateways, and
	// otherwise says why not.
	Fits func(addrs []netip.Addr, guest bool) error
	// Home is the node that has the address of a pod that follows, as its annotation says; "" for none.
	Home string
	// PredecessorWait bounds how long a successor waits for the end of its predecessor.
	PredecessorWait time.Duration
}

// Predecessor is an earlier attachment of an owner.
type Predecessor struct {
	Attachment
	// Alive is true while the network namespace exists.
	Alive bool
	// Failed is true when the ADD never became a running pod.
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

// AddDecision is the outcome of PlanAdd. The caller stores RefusedBy or RefusedByReserved although the ADD fails, and applies all
// other fields only when the ADD succeeds.
type AddDecision struct {
	Verdict AddVerdict
	// Err says why the ADD is refused.
	Err error
	// Addresses are the addresses to take when Verdict is Claim, and Guest is Attachment.Guest.
	Addresses []netip.Addr
	Guest     int64
	// Claimed is the claimed reservation, which a rollback puts back; nil when there is none.
	Claimed *Reservation
	// Dropped is a reservation that ends before its deadline without being claimed; a rollback puts it back.
	Dropped *Reservation
	// Ended are predecessors whose network namespace is gone, to be deleted.
	Ended []AttachmentID
	// DropReserved says to delete the owner's reservation: it is claimed, lapsed or of no use any more.
	DropReserved bool
	// RefusedBy is the living predecessor to be marked as the reason of the refusal; nil when it is marked already.
	RefusedBy *AttachmentID
	// RefusedByReserved says to mark the owner's reservation as the reason of the refusal.
	RefusedByReserved bool
	// Wait is what a refused ADD may wait for before it answers; nil when a wait is of no use.
	Wait *AddWait
	// Reason says in words where the addresses come from; "" for an ordinary first ADD.
	Reason string
}

// AddWait is an earlier life of an owner whose network namespace keeps a successor waiting, or what Owner.LoanID names.
type AddWait struct {
	// ID names the attachment of the life.
	ID AttachmentID
	// NetNS and BootID are those of the namespace. Without a namespace only the agent ends the wait.
	NetNS  NetNS
	BootID string
	// Addresses are set when the attachment has ended: the wait is over as soon as the namespace has none of them.
	Addresses []netip.Addr
	// AtMost is the time after which the decision is another one; 0 when no time changes the decision.
	AtMost time.Duration
}

// PlanAdd decides which addresses an ADD may take (rules 3 and 4). The address index of the state makes sure that no
// other owner gets them.
func PlanAdd(in AddInput) AddDecision {
	if in.Existing != nil {
		first := in.Existing.Addresses[:min(1, len(in.Existing.Addresses))] // the text of host-local, which names the first address only
		return AddDecision{Err: fmt.Errorf("failed to allocate for range 0: %s has been allocated to %s, %w", join(first), in.Existing.ID.ContainerID, ErrDuplicate)}
	}
	if why := whyWaits(&in); why != "" {
		return AddDecision{Err: waitError(why), Wait: &AddWait{ID: in.Owner.LoanID()}}
	}
	d := AddDecision{Verdict: Allocate, Ended: endedOf(in.Earlier)}
	if living := newestLife(&in); living != nil {
		return allocateBesideLiving(in, d, living)
	}
	if in.ReservedInUse && reservedIsNewest(&in) {
		return allocateBesideReserved(in, d)
	}
	return claim(in, d)
}

// reservedIsNewest reports whether the owner would come back to the addresses of its reservation.
func reservedIsNewest(in *AddInput) bool {
	dead := newest(in.Earlier, false)
	return in.Reserved != nil && !in.Reserved.Deadline.Passed(in.Now) && (dead == nil || in.Reserved.Seq > dead.Seq || in.Reserved.OnLoan())
}

// newestLife returns the living predecessor if no later life of the owner has ended: the owner would come back to the
// addresses of the latest life.
func newestLife(in *AddInput) *Predecessor {
	living, dead := newest(in.Earlier, true), newest(in.Earlier, false)
	switch {
	case living == nil,
		dead != nil && dead.Seq > living.Seq,
		in.Reserved != nil && in.Reserved.Seq > living.Seq && !in.Reserved.Deadline.Passed(in.Now):
		return nil
	}
	return living
}

// allocateBesideLiving lets an ADD take a free address beside a living predecessor. When neither life asks for a
// reservation the ADD does not wait, because host-local would not wait either (rule 10). Otherwise the ADD is refused
// until PredecessorWait has passed. Each successor, by its UID, waits for itself.
func allocateBesideLiving(in AddInput, d AddDecision, living *Predecessor) AddDecision {
	refused := living.RefusedSince != nil && living.RefusedUID == in.UID
	waited := refused && in.Now.Since(*living.RefusedSince) >= in.PredecessorWait
	switch {
	case !in.WantsRetention && !living.WantsRetention():
		d.Reason = living.Holder() + " of the same name still has its network namespace, and neither asks for a reservation: took a free address"
	case waited && !in.Mode.Keeps():
		d.Reason = fmt.Sprintf("%s of the same name still had its network namespace after %s: took a free address", living.Holder(), in.PredecessorWait)
	default:
		d = AddDecision{Err: fmt.Errorf("%s of the same name still has its network namespace %s and holds %s: %w",
			living.Holder(), living.NetNS.Path, join(living.Addresses), ErrPredecessor)}
		if !refused {
			d.RefusedBy = &living.ID
		}
		d.Wait = &AddWait{ID: living.ID, NetNS: living.NetNS, BootID: living.Since.BootID, AtMost: in.waitLeft(refused, living.RefusedSince)}
		return d
	}
	if d.DropReserved = in.Reserved != nil && !in.Reserved.OnLoan(); d.DropReserved && !in.Reserved.Deadline.Passed(in.Now) {
		d.Dropped = in.Reserved
	}
	return d
}

// waitLeft returns how much of PredecessorWait is left. For a pod of mode Required or Follow no time changes the decision.
func (in AddInput) waitLeft(refused bool, since *Moment) time.Duration {
	switch {
	case in.Mode.Keeps():
		return 0
	case refused:
		return in.PredecessorWait - in.Now.Since(*since)
	}
	return in.PredecessorWait
}

// allocateBesideReserved lets an ADD wait for a namespace that still has the reserved addresses, as for a living
// predecessor: an interface plugin ended after its IPAM DEL and before it removed the interface. After PredecessorWait
// the reservation is dropped. Its addresses stay out of use while the namespace has them.
func allocateBesideReserved(in AddInput, d AddDecision) AddDecision {
	r := in.Reserved
	refused := r.RefusedSince != nil && r.RefusedUID == in.UID
	if in.Mode.Keeps() || r.OnLoan() || !refused || in.Now.Since(*r.RefusedSince) < in.PredecessorWait {
		id := AttachmentID{Network: r.Owner.Network, ContainerID: r.ContainerID, IfName: r.Owner.IfName}
		wait := &AddWait{ID: id, NetNS: r.NetNS, BootID: r.BootID, Addresses: r.Addresses, AtMost: in.waitLeft(refused, r.RefusedSince)}
		return AddDecision{RefusedByReserved: !refused, Wait: wait, Err: fmt.Errorf("container %s of the same name ended, and its network namespace %s still has an address of %s: %w",
			r.ContainerID, r.NetNS.Path, join(r.Addresses), ErrPredecessor)}
	}
	d.Reason = fmt.Sprintf("container %s of the same name ended, and its network namespace still had an address of %s after %s: took a free address",
		r.ContainerID, join(r.Addresses), in.PredecessorWait)
	d.DropReserved, d.Dropped = true, r
	return d
}

// claim takes the addresses that the owner had, from its reservation or from a predecessor that is gone. Without such
// addresses, or when the ranges do not have them any more, the ADD takes free ones.
func claim(in AddInput, d AddDecision) AddDecision {
	own, back, dead := (*Reservation)(nil), (*Reservation)(nil), newest(in.Earlier, false)
	switch {
	case in.Reserved != nil && in.Reserved.Deadline.Passed(in.Now):
		d.DropReserved = true
		d.Reason = fmt.Sprintf("the reservation of %s had lapsed", join(in.Reserved.Addresses))
	case reservedIsNewest(&in):
		own, back, d.DropReserved = in.Reserved, withoutNetNS(*in.Reserved), true
	}
	if own == nil && dead != nil { // the end was not seen: the reservation begins now and is claimed at once
		own = reserve(dead.Attachment, Deadline{From: in.Now, For: dead.Retain}, "").Reserve
		back, d.DropReserved = withoutNetNS(*own), in.Reserved != nil
		if dead.Failed { // a rollback of this ADD also undoes the failed one, so keep what was there before it
			back, d.Dropped = dead.Claimed, dead.Dropped
		}
	}
	if own == nil {
		return d
	}
	if back != nil && back.Deadline.For == 0 {
		back = nil
	}
	if err := in.Fits(own.Addresses, own.Guest != 0); err != nil {
		return outOfRange(in, d, own, back, err)
	}
	d.Verdict, d.Addresses, d.Guest, d.Claimed, d.Reason = Claim, own.Addresses, own.Guest, back, "same owner came back"
	return d
}

// withoutNetNS returns a claimed reservation. The new attachment has a namespace of its own, and waits for no other.
func withoutNetNS(r Reservation) *Reservation {
	r.NetNS, r.BootID, r.RefusedSince, r.RefusedUID = NetNS{}, "", nil, ""
	return &r
}

// outOfRange handles addresses that the configured ranges do not have any more.
func outOfRange(in AddInput, d AddDecision, own, back *Reservation, why error) AddDecision {
	if in.Mode.Keeps() || own.Guest != 0 {
		return AddDecision{Err: fmt.Errorf("%s of %s cannot be handed out: %w: %w", join(own.Addresses), in.Owner, why, ErrRequired)}
	}
	if back != nil {
		d.Dropped = back
	}
	d.Reason = fmt.Sprintf("had %s, which cannot be handed out any more (%v): took a free address", join(own.Addresses), why)
	return d
}

// newest returns the newest predecessor among those that are alive, or among those that are not.
func newest(earlier []Predecessor, alive bool) *Predecessor {
	var found *Predecessor
	for i := range earlier {
		if p := &earlier[i]; p.Alive == alive && (found == nil || p.Seq > found.Seq) {
			found = p
		}
	}
	return found
}

// endedOf returns the predecessors that are not alive.
func endedOf(earlier []Predecessor) []AttachmentID {
	var ids []AttachmentID
	for _, p := range earlier {
		if !p.Alive {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
