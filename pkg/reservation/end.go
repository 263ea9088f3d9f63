package reservation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// EndInput is what is known when an attachment ends by DEL, by GC, or because
// the agent found its sandbox gone.
type EndInput struct {
	Now Moment
	// Attachment is the one that was named.
	Attachment Attachment
	// Newer tells that a newer life of the owner is attached or reserved.
	Newer bool
	// Rollback tells that the ADD never became a running pod.
	Rollback bool
	// Taken tells that others hold addresses of Attachment.Dropped by now.
	Taken bool
}

// EndDecision is what becomes of the addresses: they are reserved, or free when
// Reserve is nil.
type EndDecision struct {
	Reserve *Reservation
	Reason  string
	// Displaced is the reservation that ended for this one before its deadline, and Refused
	// tells that this one was not made: PlanShare's part, for those who tell of it.
	Displaced *Reservation
	Refused   bool
}

// PlanEnd decides what becomes of the addresses of an attachment that ends
// (rules 3 and 8).
func PlanEnd(in EndInput) EndDecision {
	a := in.Attachment
	switch {
	case !a.Owner.Named():
		return EndDecision{Reason: "no pod name to come back under"}
	case in.Newer:
		return EndDecision{Reason: "a newer life of the pod holds other addresses"}
	case in.Rollback && a.Claimed != nil:
		return EndDecision{Reserve: a.Claimed, Reason: "the failed ADD is undone"}
	case in.Rollback && a.Dropped != nil && in.Taken:
		return EndDecision{Reason: fmt.Sprintf("the failed ADD is undone, but for the reservation of %s, which others hold by now", join(a.Dropped.Addresses))}
	case in.Rollback && a.Dropped != nil:
		return EndDecision{Reserve: a.Dropped, Reason: "the failed ADD is undone"}
	case in.Rollback:
		return EndDecision{Reason: "the failed ADD is undone"}
	case a.Retain <= 0:
		return EndDecision{Reason: "no reservation asked for"}
	}
	return reserve(a, Deadline{From: in.Now, For: a.Retain}, fmt.Sprintf("reserved for %s", a.Retain))
}

func reserve(a Attachment, d Deadline, reason string) EndDecision {
	return EndDecision{Reason: reason, Reserve: &Reservation{
		Owner: a.Owner, UID: a.UID, ContainerID: a.ID.ContainerID, Addresses: a.Addresses,
		Deadline: d, Retain: a.Retain, Mode: a.Mode, Seq: a.Seq,
	}}
}

// join lists addresses for messages.
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

// Unlapsed returns the reservations whose deadline is still to come.
func Unlapsed(all []Reservation, now Moment) []Reservation {
	return slices.DeleteFunc(slices.Clone(all), func(r Reservation) bool { return r.Deadline.Passed(now) })
}
