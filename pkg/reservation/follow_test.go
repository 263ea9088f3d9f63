package reservation_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// followed is the reservation of a life that followed, and ended in a boot.
func followed(boot string, lent, guest int64) *reservation.Reservation {
	return &reservation.Reservation{
		Owner: owner, Addresses: addrs, Deadline: reservation.Deadline{From: ago(time.Minute), For: reservation.Forever},
		Retain: reservation.Forever, Mode: reservation.Follow, Lent: lent, Guest: guest, Seq: 3, BootID: boot,
	}
}

// following returns an earlier attachment of an owner that follows.
func following(boot string, seq uint64, guest int64, alive bool) reservation.Predecessor {
	return life("old", seq, alive, func(a *reservation.Attachment) {
		a.Mode, a.Retain, a.Guest, a.Since = reservation.Follow, reservation.Forever, guest, ago(time.Hour)
		a.Since.BootID = boot
	})
}

// TestAnOwnerThatFollows plans ADDs in the boot "b".
func TestAnOwnerThatFollows(t *testing.T) {
	const minute = time.Minute
	claims := func(guest int64, drops bool, ended ...reservation.AttachmentID) reservation.AddDecision {
		return reservation.AddDecision{Verdict: reservation.Claim, Addresses: addrs, Guest: guest, DropReserved: drops, Ended: ended}
	}
	ended := func(boot string, seq uint64, guest int64) []reservation.Predecessor {
		return []reservation.Predecessor{following(boot, seq, guest, false)}
	}
	free := reservation.AddDecision{Verdict: reservation.Allocate}
	unfit := func(_ []netip.Addr, guest bool) error {
		if !guest {
			return errors.New("out of range")
		}
		return nil
	}
	nothing := func([]netip.Addr, bool) error { return errors.New("no range of the family") }
	old := idOf("old")
	for name, tc := range map[string]struct {
		stopped bool // the pod does not follow any more
		in      reservation.AddInput
		want    reservation.AddDecision
		waits   string // what the error says; "" for no wait
		fails   error
	}{
		"has none": {want: free},
		"has none, and says that it has one elsewhere": {in: reservation.AddInput{Home: "n2"}, waits: "ns/web-0: the address is of node n2"},
		"has it":                                               {in: reservation.AddInput{Reserved: followed("b", 0, 0)}, want: claims(0, true)},
		"has it here, whatever the pod says":                   {in: reservation.AddInput{Home: "n2", Reserved: followed("b", 0, 0)}, want: claims(0, true)},
		"has it since before the node started":                 {in: reservation.AddInput{Reserved: followed("a", 0, 0)}, waits: "ns/web-0: 10.1.0.2,fd00::2 may be lent"},
		"has it without an end":                                {in: reservation.AddInput{Reserved: &reservation.Reservation{Owner: owner, Addresses: addrs, Mode: reservation.Follow, BootID: "b", Deadline: reservation.Deadline{From: reservation.Moment{BootID: "z"}, For: reservation.Forever}}}, want: claims(0, true)},
		"has lent it":                                          {in: reservation.AddInput{Reserved: followed("b", 7, 0)}, waits: "ns/web-0: 10.1.0.2,fd00::2 is lent"},
		"has lent it, and follows no more":                     {stopped: true, in: reservation.AddInput{Reserved: followed("b", 7, 0)}, waits: "is lent"},
		"has lent it, and had another one since":               {in: reservation.AddInput{Reserved: followed("b", 7, 0), Earlier: ended("b", 9, 0)}, waits: "is lent"},
		"has borrowed it":                                      {in: reservation.AddInput{Reserved: followed("b", 0, 8)}, want: claims(8, true)},
		"has borrowed it, and the ranges do not have it":       {in: reservation.AddInput{Reserved: followed("b", 0, 8), Fits: unfit}, want: claims(8, true)},
		"has borrowed it, and another one since":               {in: reservation.AddInput{Reserved: followed("b", 0, 8), Earlier: ended("b", 9, 0)}, want: claims(8, true, old)},
		"has borrowed it before the node started":              {in: reservation.AddInput{Reserved: followed("a", 0, 8)}, waits: "may be lent"},
		"has borrowed it where there is no mask for it":        {in: reservation.AddInput{Reserved: followed("b", 0, 8), Fits: nothing}, fails: reservation.ErrRequired},
		"… also one that stopped":                              {stopped: true, in: reservation.AddInput{Reserved: followed("b", 0, 8), Fits: nothing}, fails: reservation.ErrRequired},
		"has one out of range":                                 {in: reservation.AddInput{Reserved: followed("b", 0, 0), Fits: unfit}, fails: reservation.ErrRequired},
		"had it, and the end was not seen":                     {in: reservation.AddInput{Earlier: ended("b", 2, 0)}, want: claims(0, false, old)},
		"was a guest, and the end was not seen":                {in: reservation.AddInput{Earlier: ended("b", 2, 8)}, want: claims(8, false, old)},
		"had it before the node started":                       {in: reservation.AddInput{Earlier: ended("a", 2, 0)}, waits: "may be lent"},
		"was a guest before the node started":                  {in: reservation.AddInput{Earlier: ended("a", 2, 8)}, waits: "may be lent"},
		"… also one that follows no more":                      {stopped: true, in: reservation.AddInput{Earlier: ended("a", 2, 8)}, waits: "may be lent"},
		"has it with another life":                             {in: reservation.AddInput{Home: "n2", Earlier: []reservation.Predecessor{following("b", 2, 0, true)}}, want: reservation.AddDecision{RefusedBy: &old}, fails: reservation.ErrPredecessor},
		"begins to follow, with an address of an earlier boot": {in: reservation.AddInput{Reserved: &reservation.Reservation{Owner: owner, Addresses: addrs, BootID: "a", Deadline: reservation.Deadline{From: now, For: minute}}}, waits: "may be lent"},
		"does not follow, and says that it has one elsewhere":  {stopped: true, in: reservation.AddInput{Home: "n2"}, want: free},
	} {
		t.Run(name, func(t *testing.T) {
			in := tc.in
			in.Now, in.ID, in.Owner, in.PredecessorWait, in.Mode, in.WantsRetention = now, idOf("new"), owner, minute, reservation.Follow, true
			if tc.stopped {
				in.Mode = reservation.Preferred
			}
			if in.Fits == nil {
				in.Fits = func([]netip.Addr, bool) error { return nil }
			}
			got := reservation.PlanAdd(in)
			if tc.waits != "" {
				want := reservation.AddDecision{Wait: &reservation.AddWait{ID: reservation.AttachmentID{Network: "net", ContainerID: "loan.ns.web-0", IfName: "eth0"}}}
				if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(reservation.AddDecision{}, "Err")); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if !errors.Is(got.Err, reservation.ErrPredecessor) || !strings.Contains(got.Err.Error(), tc.waits) || !strings.Contains(got.Err.Error(), "limpet pod web-0 -n ns") {
					t.Errorf("error %v, want one that says %s", got.Err, tc.waits)
				}
				return
			}
			if !errors.Is(got.Err, tc.fails) {
				t.Errorf("error %v, want %v", got.Err, tc.fails)
			}
			ignore := cmpopts.IgnoreFields(reservation.AddDecision{}, "Err", "Reason", "Wait", "Claimed")
			if diff := cmp.Diff(tc.want, got, ignore, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Verdict == reservation.Claim && (got.Claimed == nil || got.Claimed.Guest != got.Guest || got.Claimed.Deadline.For != reservation.Forever) {
				t.Errorf("a rollback puts back %+v", got.Claimed)
			}
		})
	}
}

// TestTheEndOfALifeThatFollows ends attachments where the share of the pool is used up by one that may give way.
func TestTheEndOfALifeThatFollows(t *testing.T) {
	other := *reserved(1, time.Minute)
	other.Owner.Pod = "other"
	noMore := func(a *reservation.Attachment) { a.Mode, a.Retain = reservation.Preferred, 0 }
	for name, tc := range map[string]struct {
		guest     int64
		change    func(*reservation.Attachment)
		rollback  bool
		newer     bool
		reserved  bool
		displaced bool
	}{
		"at home":                                  {reserved: true, displaced: true},
		"… and follows no more":                    {change: noMore},
		"of a guest":                               {guest: 8, reserved: true},
		"… that follows no more":                   {guest: 8, change: noMore, reserved: true},
		"… whose ADD failed":                       {guest: 8, rollback: true, reserved: true},
		"… whose ADD failed, after a claim":        {guest: 9, rollback: true, reserved: true, change: func(a *reservation.Attachment) { a.Claimed = followed("b", 0, 8) }},
		"… beside a newer one: the agent gives it": {guest: 8, newer: true},
		"whose ADD failed":                         {rollback: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := following("b", 7, tc.guest, false).Attachment
			if tc.change != nil {
				tc.change(&a)
			}
			in := reservation.EndInput{Now: now, Attachment: a, Rollback: tc.rollback, Newer: tc.newer, Share: &reservation.Share{Pods: 1}, ReservedPods: 1}
			if in.NeedsReserved() {
				in.Reserved = []reservation.Reservation{other}
			}
			d := reservation.PlanEnd(in)
			if (d.Reserve != nil) != tc.reserved || (d.Displaced != nil) != tc.displaced {
				t.Fatalf("decided %+v", d)
			}
			if r := d.Reserve; r != nil && (r.Mode != reservation.Follow || r.Guest != tc.guest || r.Retain != reservation.Forever || r.Deadline.Passed(reservation.Moment{Wall: now.Wall.AddDate(300, 0, 0)}) || r.BootID != "b") {
				t.Errorf("reserved %+v", r)
			}
		})
	}
}
