package reservation_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestPlanEnd(t *testing.T) {
	claimed := reserved(3, time.Minute)
	asked := life("c", 7, false).Attachment
	with := func(change func(*reservation.Attachment)) reservation.Attachment {
		a := asked
		change(&a)
		return a
	}
	for name, tc := range map[string]struct {
		in   reservation.EndInput
		want *reservation.Deadline
	}{
		"an owner that asked for it has its addresses reserved": {
			in: reservation.EndInput{Attachment: asked}, want: &reservation.Deadline{From: now, For: 10 * time.Minute},
		},
		"an owner that did not ask leaves no reservation": {
			in: reservation.EndInput{Attachment: with(func(a *reservation.Attachment) { a.Retain = 0 })},
		},
		"an older life leaves no reservation": {
			in: reservation.EndInput{Attachment: asked, Newer: true},
		},
		"a rollback makes no new reservation": {
			in: reservation.EndInput{Attachment: asked, Rollback: true},
		},
		"the end of a pod that had claimed begins a new deadline": {
			in:   reservation.EndInput{Attachment: with(func(a *reservation.Attachment) { a.Claimed = claimed })},
			want: &reservation.Deadline{From: now, For: 10 * time.Minute},
		},
		"a container without a pod name leaves no reservation": {
			in: reservation.EndInput{Attachment: with(func(a *reservation.Attachment) { a.Owner.Pod = "" })},
		},
		"a rollback does not put back addresses that other pods have now": {
			in: reservation.EndInput{Attachment: with(func(a *reservation.Attachment) { a.Dropped = reserved(3, time.Minute) }), Rollback: true, DroppedTaken: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.Now = now
			got := reservation.PlanEnd(tc.in)
			if got.Reason == "" {
				t.Error("no reason given")
			}
			if tc.want == nil {
				if got.Reserve != nil {
					t.Fatalf("reserved %v", got.Reserve)
				}
				return
			}
			want := &reservation.Reservation{
				Owner: owner, ContainerID: "c", Addresses: addrs, Deadline: *tc.want, Retain: tc.in.Attachment.Retain, Seq: 7,
			}
			if diff := cmp.Diff(want, got.Reserve, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlanEndKeepsToTheShare ends an attachment with and without room for its reservation.
func TestPlanEndKeepsToTheShare(t *testing.T) {
	other := *reserved(1, time.Minute)
	other.Owner.Pod = "other"
	for name, tc := range map[string]struct {
		share     *reservation.Share
		rollback  bool
		reserved  bool
		refused   bool
		displaced bool
	}{
		"no limit":                        {reserved: true},
		"room":                            {share: &reservation.Share{Pods: 2}, reserved: true},
		"no room, the other gives way":    {share: &reservation.Share{Pods: 1}, reserved: true, displaced: true},
		"no room, and no other gives way": {share: &reservation.Share{Pods: 1, Refuse: true}, refused: true},
		"no room, but the ADD is undone":  {share: &reservation.Share{Pods: 1, Refuse: true}, rollback: true, reserved: true},
		"a share of nothing":              {share: &reservation.Share{}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := life("c", 7, false).Attachment
			a.Claimed = reserved(3, time.Minute)
			in := reservation.EndInput{Now: now, Attachment: a, Rollback: tc.rollback, Share: tc.share, ReservedPods: 1}
			if in.NeedsReserved() {
				in.Reserved = []reservation.Reservation{other}
			}
			d := reservation.PlanEnd(in)
			if (d.Reserve != nil) != tc.reserved || d.Refused != tc.refused || (d.Displaced != nil) != tc.displaced || d.Reason == "" {
				t.Errorf("decided %+v", d)
			}
		})
	}
}

// TestPlanEndPutsBackTheReservation rolls back ADDs that found a reservation: it gets its own deadline, request and
// UID back, not those of the ADD.
func TestPlanEndPutsBackTheReservation(t *testing.T) {
	was := reserved(3, time.Minute)
	was.UID, was.ContainerID, was.Retain, was.Mode = "first", "c-first", time.Hour, reservation.Required
	for name, found := range map[string]func(*reservation.Attachment){
		"which was claimed":     func(a *reservation.Attachment) { a.Claimed, a.Retain = was, 0 },
		"which it had released": func(a *reservation.Attachment) { a.Dropped = was },
		"and asks for another":  func(a *reservation.Attachment) { a.Claimed, a.Retain = was, time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			got := reservation.PlanEnd(reservation.EndInput{Now: now, Attachment: life("c", 7, false, found).Attachment, Rollback: true})
			if diff := cmp.Diff(was, got.Reserve, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLapsed(t *testing.T) {
	all := []reservation.Reservation{*reserved(1, 9*time.Minute), *reserved(2, 10*time.Minute), *reserved(3, time.Hour)}
	got := reservation.Lapsed(all, now)
	if len(got) != 2 || got[0].Seq != 2 || got[1].Seq != 3 {
		t.Errorf("lapsed: %v, want the second and the third", got)
	}
}
