package reservation_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// The tests in this file are about network namespaces that outlive their attachment.

var ended = reservation.NetNS{Path: "/run/netns/ended", Dev: 4, Inode: 17}

// inUse returns a reservation whose namespace exists, and when its owner was first refused.
func inUse(refusedAgo time.Duration, uid string) *reservation.Reservation {
	r := reserved(1, time.Minute)
	r.ContainerID, r.NetNS, r.BootID = "ended", ended, "b"
	if refusedAgo > 0 {
		since := ago(refusedAgo)
		r.RefusedSince, r.RefusedUID = &since, uid
	}
	return r
}

func TestPlanAddWaitsForANamespaceThatStillHasTheAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		in      reservation.AddInput
		want    reservation.AddDecision
		wantErr error
	}{
		"the owner waits, and the reservation is marked": {
			in:      reservation.AddInput{Reserved: inUse(0, ""), ReservedInUse: true},
			want:    reservation.AddDecision{RefusedByReserved: true},
			wantErr: reservation.ErrPredecessor,
		},
		"within the wait the mark stays": {
			in:      reservation.AddInput{UID: "u", Reserved: inUse(59*time.Second, "u"), ReservedInUse: true},
			wantErr: reservation.ErrPredecessor,
		},
		"another successor begins a wait of its own": {
			in:      reservation.AddInput{UID: "v", Reserved: inUse(time.Hour, "u"), ReservedInUse: true},
			want:    reservation.AddDecision{RefusedByReserved: true},
			wantErr: reservation.ErrPredecessor,
		},
		"after the wait a free address is taken, and a rollback puts the reservation back": {
			in:   reservation.AddInput{UID: "u", Reserved: inUse(time.Minute, "u"), ReservedInUse: true},
			want: reservation.AddDecision{Verdict: reservation.Allocate, DropReserved: true, Dropped: inUse(time.Minute, "u")},
		},
		"a pod with mode required keeps waiting": {
			in:      reservation.AddInput{UID: "u", Mode: reservation.Required, Reserved: inUse(time.Hour, "u"), ReservedInUse: true},
			wantErr: reservation.ErrPredecessor,
		},
		"a namespace without the addresses is no reason to wait": {
			in:   reservation.AddInput{UID: "u", Reserved: inUse(time.Second, "u")},
			want: reservation.AddDecision{Verdict: reservation.Claim, Addresses: addrs, Claimed: reserved(1, time.Minute), DropReserved: true},
		},
		"the addresses of a later life that is gone are claimed": {
			in: reservation.AddInput{Reserved: inUse(0, ""), ReservedInUse: true, Earlier: failed(func(a *reservation.Attachment) { a.Retain = 0 })},
			want: reservation.AddDecision{
				Verdict: reservation.Claim, Addresses: addrs, DropReserved: true, Ended: []reservation.AttachmentID{idOf("dead")},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.Now, tc.in.PredecessorWait = now, time.Minute
			tc.in.Fits = func([]netip.Addr, bool) error { return nil }
			if tc.in.Reserved != nil && tc.want.Claimed != nil {
				tc.want.Claimed.ContainerID = tc.in.Reserved.ContainerID
			}
			got := reservation.PlanAdd(tc.in)
			if !errors.Is(got.Err, tc.wantErr) || (tc.wantErr == nil) != (got.Err == nil) {
				t.Errorf("error %v, want %v", got.Err, tc.wantErr)
			}
			ignore := cmpopts.IgnoreFields(reservation.AddDecision{}, "Err", "Reason", "Wait")
			if diff := cmp.Diff(tc.want, got, ignore, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlanEndRemembersTheNamespace shows which namespace may still have reserved addresses.
func TestPlanEndRemembersTheNamespace(t *testing.T) {
	a := life("c", 7, false).Attachment
	since := ago(time.Second)
	a.NetNS, a.Since, a.RefusedSince, a.RefusedUID = ended, ago(time.Hour), &since, "u"
	r := reservation.PlanEnd(reservation.EndInput{Now: now, Attachment: a}).Reserve
	if r.NetNS != ended || r.BootID != "b" || r.RefusedSince != &since || r.RefusedUID != "u" {
		t.Errorf("reserved %+v, want the namespace, and the successor that waits already", r)
	}
	a.Claimed = reserved(3, time.Minute)
	r = reservation.PlanEnd(reservation.EndInput{Now: now, Attachment: a, Rollback: true}).Reserve
	if r.NetNS != ended || r.BootID != "b" || r.Seq != 3 || r.RefusedSince != nil {
		t.Errorf("put back %+v, want the namespace of the failed ADD", r)
	}
}

// TestRebuildKeepsAReservationWhoseNamespaceExists loses a state while the namespace of a pod that
// ended still has its address: the owner keeps the reservation.
func TestRebuildKeepsAReservationWhoseNamespaceExists(t *testing.T) {
	for name, tc := range map[string]struct {
		boot         string
		reservations int
	}{
		"the namespace exists":                      {"b", 1},
		"the namespace is one of an earlier boot's": {"a", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := inUse(0, "")
			r.BootID = tc.boot
			d := reservation.PlanRebuild(reservation.RebuildInput{
				Now:  now,
				Read: reservation.Records{Reservations: []reservation.Reservation{*r}},
				Placeholders: []reservation.Attachment{{
					ID:    reservation.AttachmentID{Network: "net", ContainerID: reservation.NetNSPlaceholder(ended), IfName: "eth0"},
					Owner: reservation.Owner{Network: "net", IfName: "eth0"}, NetNS: ended, Addresses: addrs, Since: now,
				}},
				Alive: func(a reservation.Attachment) bool { return a.Since.BootID == "b" && a.NetNS == ended },
			})
			if len(d.Reservations) != tc.reservations || len(d.Attachments) != 1-tc.reservations {
				t.Errorf("%d reservations and %d attachments", len(d.Reservations), len(d.Attachments))
			}
		})
	}
}
