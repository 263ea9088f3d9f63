package reservation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// EndInput holds the facts about an attachment that ends: by DEL, by GC, or because the agent found its
// sandbox gone.
type EndInput struct {
	Now Moment
	// Attachment is the attachment that ends.
	Attachment Attachment
	// Newer is true when a newer life of the owner is attached or reserved.
	Newer bool
	// Rollback is true when the ADD never became a running pod.
	Rollback bool
	// DroppedTaken is true when another holder has an address of Attachment.Dropped.
	DroppedTaken bool
	// Share limits the reservations of the network; nil when nothing limits them. PlanEnd reads Share and ReservedPods
	// only when NeedsShare is true.
	Share *Share
	// ReservedPods counts the reservations of the network, lapsed ones included.
	ReservedPods int64
	// ReservedOfNamespace counts those of the pod's namespace. PlanEnd reads the number only when NeedsNamespace is true.
	ReservedOfNamespace int64
	// Held and Reserved are those of ShareInput. PlanEnd reads them only when NeedsReserved is true.
	Held     map[string]int64
	Reserved []Reservation
}

// EndDecision says what happens to the addresses: reserved, or free when Reserve is nil.
type EndDecision struct {
	Reserve *Reservation
	// Reason says in words why.
	Reason string
	// Lapsed are reservations that are deleted to make room, because their deadline has passed.
	Lapsed []Reservation
	// Displaced is a reservation that is deleted before its deadline to make room; nil for none.
	Displaced *Reservation
	// Refused is true when there was no room for the reservation.
	Refused bool
	// OverQuota is true when it was the quota of the namespace that was used up.
	OverQuota bool
}

// PlanEnd decides what happens to the addresses of an attachment that ends (rules 3 and 8), and within the
// share of the pool that reservations may hold, which reservation makes room.
func PlanEnd(in EndInput) EndDecision {
	d := planRetention(in)
	if !in.NeedsReserved() {
		return d
	}
	share := PlanShare(ShareInput{Now: in.Now, Share: *in.Share, New: *d.Reserve, Held: in.Held, Reserved: in.Reserved})
	d.Lapsed, d.Displaced, d.OverQuota = share.Lapsed, share.Displaced, share.OverQuota
	switch {
	case share.Verdict == ShareRefused:
		d.Reserve, d.Refused, d.Reason = nil, true, share.Reason
	case share.Displaced != nil:
		d.Reason += "; " + share.Reason
	}
	return d
}

// NeedsShare reports whether PlanEnd needs EndInput.Share: the attachment leaves a new reservation. A rolled-back ADD
// puts back a reservation that was counted before, and is not limited (rule 8).
// The addresses of a guest are not of the pool.
func (in EndInput) NeedsShare() bool {
	return !in.Rollback && in.Attachment.Guest == 0 && planRetention(in).Reserve != nil
}

// NeedsReserved reports whether PlanEnd needs EndInput.Held and Reserved: the share of the pool, or the quota of the
// namespace, is used up.
func (in EndInput) NeedsReserved() bool {
	return in.NeedsShare() && in.Share != nil &&
		(!in.Share.HasRoom(in.ReservedPods) || in.NeedsNamespace() && !in.Share.HasRoomOf(in.ReservedOfNamespace))
}

// NeedsNamespace reports whether PlanEnd needs EndInput.ReservedOfNamespace: the namespace may have used up its quota.
func (in EndInput) NeedsNamespace() bool {
	return in.NeedsShare() && in.Share != nil && !in.Share.HasRoomOf(in.ReservedPods)
}

// planRetention decides whether the addresses are reserved, leaving aside the share of the pool.
func planRetention(in EndInput) EndDecision {
	a := in.Attachment
	switch {
	case !a.Owner.Named():
		return EndDecision{Reason: "no pod name to come back under"}
	case in.Newer:
		return EndDecision{Reason: "a newer life of the pod holds other addresses"}
	case in.Rollback && a.Claimed != nil:
		return EndDecision{Reserve: putBack(a), Reason: "the failed ADD is undone"}
	case in.Rollback && a.Dropped != nil && in.DroppedTaken:
		return EndDecision{Reason: fmt.Sprintf("the failed ADD is undone, and the reservation of %s is not put back: others hold its addresses", join(a.Dropped.Addresses))}
	case in.Rollback && a.Dropped != nil:
		return EndDecision{Reserve: a.Dropped, Reason: "the failed ADD is undone"}
	case in.Rollback && a.Guest == 0:
		return EndDecision{Reason: "the failed ADD is undone"}
	case a.Retain <= 0 && !a.follows():
		return EndDecision{Reason: "no reservation asked for"}
	}
	return reserve(a, Deadline{From: in.Now, For: a.Retain}, fmt.Sprintf("reserved for %s", a.Retain))
}

// follows reports whether only a positive answer ends the hold on the addresses. Those of a guest the agent gives back, whatever
// the pod asks for by now.
func (a *Attachment) follows() bool { return a.Mode == Follow || a.Guest != 0 }

// reserve returns the decision to reserve the addresses of an attachment.
func reserve(a Attachment, d Deadline, reason string) EndDecision {
	if a.follows() {
		a.Mode, a.Retain, d.For, reason = Follow, Forever, Forever, "reserved without an end"
	}
	return EndDecision{Reason: reason, Reserve: &Reservation{
		Guest: a.Guest,
		Owner: a.Owner, UID: a.UID, ContainerID: a.ID.ContainerID, Addresses: a.Addresses,
		Deadline: d, Retain: a.Retain, Mode: a.Mode, Seq: a.Seq, NetNS: a.NetNS, BootID: a.Since.BootID,
		RefusedSince: a.RefusedSince, RefusedUID: a.RefusedUID, // a successor that waits for the life goes on waiting for its namespace
	}}
}

// putBack returns the reservation that a failed ADD had claimed. The namespace of the failed ADD may have the addresses.
func putBack(a Attachment) *Reservation {
	r := *a.Claimed
	r.NetNS, r.BootID, r.Guest = a.NetNS, a.Since.BootID, a.Guest
	return &r
}

// join returns addresses as text for messages.
func join(addrs []netip.Addr) string {
	s := make([]string, len(addrs))
	for i, a := range addrs {
		s[i] = a.String()
	}
	return strings.Join(s, ",")
}

// Lapsed returns the reservations whose deadline has passed.
func Lapsed(all []Reservation, now Moment) []Reservation {
	var lapsed []Reservation
	for _, r := range all {
		if r.Deadline.Passed(now) {
			lapsed = append(lapsed, r)
		}
	}
	return lapsed
}

// Unlapsed returns the reservations whose deadline has not passed.
func Unlapsed(all []Reservation, now Moment) []Reservation {
	return slices.DeleteFunc(slices.Clone(all), func(r Reservation) bool { return r.Deadline.Passed(now) })
}
