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

var (
	now   = reservation.Moment{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), BootID: "b", Up: time.Hour}
	owner = reservation.Owner{Network: "net", Namespace: "ns", Pod: "web-0", IfName: "eth0"}
	addrs = []netip.Addr{netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("fd00::2")}
)

func ago(d time.Duration) reservation.Moment {
	return reservation.Moment{Wall: now.Wall.Add(-d), BootID: now.BootID, Up: now.Up - d}
}

func idOf(container string) reservation.AttachmentID {
	return reservation.AttachmentID{Network: "net", ContainerID: container, IfName: "eth0"}
}

// life returns an earlier attachment of the owner.
func life(container string, seq uint64, alive bool, change ...func(*reservation.Attachment)) reservation.Predecessor {
	a := reservation.Attachment{ID: idOf(container), Owner: owner, Addresses: addrs, Retain: 10 * time.Minute, Seq: seq}
	for _, c := range change {
		c(&a)
	}
	return reservation.Predecessor{Attachment: a, Alive: alive}
}

// failed returns earlier attachments, one of which never became a running pod.
func failed(change ...func(*reservation.Attachment)) []reservation.Predecessor {
	p := life("dead", 2, false, change...)
	p.Failed = true
	return []reservation.Predecessor{p}
}

func refused(d time.Duration) func(*reservation.Attachment) {
	return func(a *reservation.Attachment) { m := ago(d); a.RefusedSince = &m }
}

func asksNothing(a *reservation.Attachment) { a.AnnotationsSeen, a.Retain = true, 0 }

func reserved(seq uint64, endedAgo time.Duration) *reservation.Reservation {
	return &reservation.Reservation{Owner: owner, Addresses: addrs, Seq: seq, Deadline: reservation.Deadline{From: ago(endedAgo), For: 10 * time.Minute}}
}

func TestPlanAdd(t *testing.T) {
	outOfRange := errors.New("10.1.0.2 is not in the ranges")
	dead := life("dead", 2, false)
	tookOver := &reservation.Reservation{
		Owner: owner, ContainerID: "dead", Addresses: addrs, Deadline: reservation.Deadline{From: now, For: 10 * time.Minute}, Retain: 10 * time.Minute, Seq: 2,
	}
	predecessor := idOf("old")
	for name, tc := range map[string]struct {
		in      reservation.AddInput
		want    reservation.AddDecision
		wantErr error
	}{
		"a first ADD takes a free address": {
			want: reservation.AddDecision{Verdict: reservation.Allocate},
		},
		"a repeated ADD of one attachment is an error": {
			in:      reservation.AddInput{Existing: &dead.Attachment},
			wantErr: reservation.ErrDuplicate,
		},
		"an owner that returns in time claims all its addresses": {
			in:   reservation.AddInput{Reserved: reserved(1, time.Minute)},
			want: reservation.AddDecision{Verdict: reservation.Claim, Addresses: addrs, Claimed: reserved(1, time.Minute), DropReserved: true},
		},
		"a lapsed reservation does not count": {
			in:   reservation.AddInput{Reserved: reserved(1, 10*time.Minute)},
			want: reservation.AddDecision{Verdict: reservation.Allocate, DropReserved: true},
		},
		"an ADD claims the addresses of a dead predecessor": {
			in:   reservation.AddInput{Earlier: []reservation.Predecessor{dead}},
			want: reservation.AddDecision{Verdict: reservation.Claim, Addresses: addrs, Claimed: tookOver, Ended: []reservation.AttachmentID{dead.ID}},
		},
		"an ADD waits for a living predecessor, which is marked": {
			in:      reservation.AddInput{Earlier: []reservation.Predecessor{life("old", 1, true)}},
			want:    reservation.AddDecision{RefusedBy: &predecessor},
			wantErr: reservation.ErrPredecessor,
		},
		"within the wait the mark stays as it is": {
			in:      reservation.AddInput{Earlier: []reservation.Predecessor{life("old", 1, true, refused(59*time.Second))}},
			wantErr: reservation.ErrPredecessor,
		},
		"a later successor begins a wait of its own": {
			in: reservation.AddInput{UID: "third", Earlier: []reservation.Predecessor{life("old", 1, true, refused(time.Hour), func(a *reservation.Attachment) {
				a.RefusedUID = "second"
			})}},
			want:    reservation.AddDecision{RefusedBy: &predecessor},
			wantErr: reservation.ErrPredecessor,
		},
		"without UIDs all successors share one wait": {
			in:   reservation.AddInput{Earlier: []reservation.Predecessor{life("old", 1, true, refused(time.Hour))}},
			want: reservation.AddDecision{Verdict: reservation.Allocate},
		},
		"beside a living predecessor the addresses of an older life are not claimed": {
			in:   reservation.AddInput{Earlier: []reservation.Predecessor{life("older", 1, false), life("old", 2, true, asksNothing)}},
			want: reservation.AddDecision{Verdict: reservation.Allocate, Ended: []reservation.AttachmentID{idOf("older")}},
		},
		"after the wait a free address is taken": {
			in:   reservation.AddInput{Earlier: []reservation.Predecessor{life("old", 1, true, refused(time.Minute))}},
			want: reservation.AddDecision{Verdict: reservation.Allocate},
		},
		"a pod with mode required keeps waiting": {
			in:      reservation.AddInput{Mode: reservation.Required, Earlier: []reservation.Predecessor{life("old", 1, true, refused(time.Hour))}},
			wantErr: reservation.ErrPredecessor,
		},
		"a lapsed reservation does not free a pod from the wait": {
			in: reservation.AddInput{
				Mode: reservation.Required, Reserved: reserved(2, time.Hour),
				Earlier: []reservation.Predecessor{life("old", 1, true, refused(time.Hour))},
			},
			wantErr: reservation.ErrPredecessor,
		},
		"a living predecessor that is not the latest life does not matter": {
			in:   reservation.AddInput{Reserved: reserved(2, time.Minute), Earlier: []reservation.Predecessor{life("old", 1, true)}},
			want: reservation.AddDecision{Verdict: reservation.Claim, Addresses: addrs, Claimed: reserved(2, time.Minute), DropReserved: true},
		},
		"an ADD claims the addresses of a later life that is dead, beside a living one": {
			in:   reservation.AddInput{Earlier: []reservation.Predecessor{life("old", 1, true), dead}},
			want: reservation.AddDecision{Verdict: reservation.Claim, Addresses: addrs, Claimed: tookOver, Ended: []reservation.AttachmentID{dead.ID}},
		},
		"a dead predecessor whose ADD had failed passes on the reservation that it had claimed": {
			in:   reservation.AddInput{Earlier: failed(func(a *reservation.Attachment) { a.Claimed = reserved(1, 9*time.Minute) })},
			want: reservation.AddDecision{Verdict: reservation.Claim, Addresses: addrs, Claimed: reserved(1, 9*time.Minute), Ended: []reservation.AttachmentID{dead.ID}},
		},
		"and the reservation that it had dropped": {
			in:   reservation.AddInput{Earlier: failed(func(a *reservation.Attachment) { a.Dropped = reserved(1, 9*time.Minute) })},
			want: reservation.AddDecision{Verdict: reservation.Claim, Addresses: addrs, Dropped: reserved(1, 9*time.Minute), Ended: []reservation.AttachmentID{dead.ID}},
		},
		"and no reservation when there was none": {
			in:   reservation.AddInput{Earlier: failed()},
			want: reservation.AddDecision{Verdict: reservation.Claim, Addresses: addrs, Ended: []reservation.AttachmentID{dead.ID}},
		},
		"and a claimed reservation out of range": {
			in: reservation.AddInput{
				Earlier: failed(func(a *reservation.Attachment) { a.Claimed = reserved(1, 9*time.Minute) }),
				Fits:    func([]netip.Addr, bool) error { return outOfRange },
			},
			want: reservation.AddDecision{Verdict: reservation.Allocate, Dropped: reserved(1, 9*time.Minute), Ended: []reservation.AttachmentID{dead.ID}},
		},
		"addresses that the ranges lost are dropped": {
			in:   reservation.AddInput{Reserved: reserved(1, time.Minute), Fits: func([]netip.Addr, bool) error { return outOfRange }},
			want: reservation.AddDecision{Verdict: reservation.Allocate, DropReserved: true, Dropped: reserved(1, time.Minute)},
		},
		"addresses of a predecessor that ended unseen are dropped as well": {
			in:   reservation.AddInput{Earlier: []reservation.Predecessor{dead}, Fits: func([]netip.Addr, bool) error { return outOfRange }},
			want: reservation.AddDecision{Verdict: reservation.Allocate, Ended: []reservation.AttachmentID{dead.ID}, Dropped: tookOver},
		},
		"a reservation older than a living predecessor is dropped": {
			in:   reservation.AddInput{Reserved: reserved(1, time.Minute), Earlier: []reservation.Predecessor{life("old", 2, true, refused(time.Minute))}},
			want: reservation.AddDecision{Verdict: reservation.Allocate, DropReserved: true, Dropped: reserved(1, time.Minute)},
		},
		"addresses that the ranges lost fail a pod with mode required": {
			in:      reservation.AddInput{Mode: reservation.Required, Reserved: reserved(1, time.Minute), Fits: func([]netip.Addr, bool) error { return outOfRange }},
			wantErr: reservation.ErrRequired,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.Now, tc.in.ID, tc.in.Owner, tc.in.PredecessorWait = now, idOf("new"), owner, time.Minute
			if tc.in.Fits == nil {
				tc.in.Fits = func([]netip.Addr, bool) error { return nil }
			}
			got := reservation.PlanAdd(tc.in)
			if !errors.Is(got.Err, tc.wantErr) {
				t.Errorf("err = %v, want %v", got.Err, tc.wantErr)
			}
			ignore := cmpopts.IgnoreFields(reservation.AddDecision{}, "Err", "Reason", "Wait")
			if diff := cmp.Diff(tc.want, got, ignore, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Rule 10: pods that ask for nothing do not wait for each other.
func TestPlanAddWaitsOnlyWhereSomethingIsAskedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		predecessor reservation.Attachment
		asks        bool
		want        reservation.AddVerdict
	}{
		"neither asks":                                   {reservation.Attachment{AnnotationsSeen: true}, false, reservation.Allocate},
		"the new life asks":                              {reservation.Attachment{AnnotationsSeen: true}, true, reservation.Refuse},
		"the predecessor asked":                          {reservation.Attachment{AnnotationsSeen: true, Retain: time.Minute}, false, reservation.Refuse},
		"the predecessor has mode required":              {reservation.Attachment{AnnotationsSeen: true, Mode: reservation.Required}, false, reservation.Refuse},
		"nobody has told what the predecessor asked for": {reservation.Attachment{}, false, reservation.Allocate},
	} {
		t.Run(name, func(t *testing.T) {
			d := reservation.PlanAdd(reservation.AddInput{
				WantsRetention: tc.asks, Earlier: []reservation.Predecessor{{Attachment: tc.predecessor, Alive: true}}, PredecessorWait: time.Minute,
				Fits: func([]netip.Addr, bool) error { return nil },
			})
			if d.Verdict != tc.want || (d.Err == nil) != (tc.want == reservation.Allocate) || (d.Err == nil && d.Reason == "") {
				t.Errorf("verdict %v (%v, %q), want %v", d.Verdict, d.Err, d.Reason, tc.want)
			}
		})
	}
}

// TestPlanAddSaysWhatToAwait refuses ADDs, and compares what each may wait for.
func TestPlanAddSaysWhatToAwait(t *testing.T) {
	ns := reservation.NetNS{Path: "/run/netns/old", Dev: 4, Inode: 7}
	earlier := reservation.Moment{Wall: now.Wall.Add(-20 * time.Second), BootID: now.BootID, Up: now.Up - 20*time.Second}
	old := reservation.Attachment{ID: idOf("old"), Owner: owner, NetNS: ns, Retain: time.Hour, Since: reservation.Moment{BootID: "boot"}}
	refused := old
	refused.RefusedSince, refused.RefusedUID = &earlier, "uid"
	ended := reservation.Reservation{Owner: owner, ContainerID: "old", NetNS: ns, BootID: "boot", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Deadline: reservation.Deadline{From: now, For: time.Hour}, Seq: 1}
	await := reservation.AddWait{ID: old.ID, NetNS: ns, BootID: "boot"}
	with := func(addrs []netip.Addr, atMost time.Duration) *reservation.AddWait {
		w := await
		w.Addresses, w.AtMost = addrs, atMost
		return &w
	}
	for name, tc := range map[string]struct {
		in   reservation.AddInput
		want *reservation.AddWait
	}{
		"a living predecessor":                    {in: reservation.AddInput{Earlier: []reservation.Predecessor{{Attachment: old, Alive: true}}}, want: with(nil, time.Minute)},
		"… that has refused before":               {in: reservation.AddInput{Earlier: []reservation.Predecessor{{Attachment: refused, Alive: true}}}, want: with(nil, 40*time.Second)},
		"… and no time changes that":              {in: reservation.AddInput{Mode: reservation.Required, Earlier: []reservation.Predecessor{{Attachment: refused, Alive: true}}}, want: with(nil, 0)},
		"a namespace that has reserved addresses": {in: reservation.AddInput{Reserved: &ended, ReservedInUse: true}, want: with(ended.Addresses, time.Minute)},
		"the container itself":                    {in: reservation.AddInput{Existing: &old}},
		"nothing":                                 {},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.Now, tc.in.ID, tc.in.Owner, tc.in.UID, tc.in.PredecessorWait, tc.in.WantsRetention = now, idOf("new"), owner, "uid", time.Minute, true
			tc.in.Fits = func([]netip.Addr, bool) error { return nil }
			if diff := cmp.Diff(tc.want, reservation.PlanAdd(tc.in).Wait, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
