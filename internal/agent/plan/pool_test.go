package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func limits(pods int64, refuse bool) *reservation.Limits {
	return &reservation.Limits{Share: reservation.Share{Pods: pods, Refuse: refuse}}
}

// brief prints a condition in one line.
func brief(c metav1.Condition) string {
	text := fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Reason)
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

func TestMirrorOfAPool(t *testing.T) {
	const free = "Exhausted=False (AddressesFree)"
	for name, tc := range map[string]struct {
		network plan.Network
		want    v1alpha1.NodeIPPoolStatus
		share   int64
		says    []string
	}{
		"an empty pool": {want: v1alpha1.NodeIPPoolStatus{Total: 5, Free: 5}, says: []string{free}},
		"one attached, one reserved, one lapsed": {
			network: plan.Network{
				Attachments:  []reservation.Attachment{attached()},
				Reservations: []reservation.Reservation{reserved(0), reserved(time.Hour)},
				Limits:       limits(3, false),
			},
			want:  v1alpha1.NodeIPPoolStatus{Total: 5, Attached: 1, Reserved: 1, Free: 3},
			share: 3, says: []string{free, "ShareReached=False (ShareLeft)"},
		},
		"a guest attached, one reserved, and one lent": {
			network: plan.Network{
				Attachments: []reservation.Attachment{attached(), attached(func(a *reservation.Attachment) { a.Guest = 8 })},
				Reservations: []reservation.Reservation{
					reserved(0), reserved(0, func(r *reservation.Reservation) { r.Guest = 8 }), reserved(0, func(r *reservation.Reservation) { r.Lent = 7 }),
				},
				Limits: limits(3, false),
			},
			want:  v1alpha1.NodeIPPoolStatus{Total: 5, Attached: 1, Reserved: 2, Lent: 1, Guests: 2, Free: 2},
			share: 3, says: []string{free, "ShareReached=False (ShareLeft)"},
		},
		"more attached than the ranges have now": {
			network: plan.Network{Attachments: make([]reservation.Attachment, 7)},
			want:    v1alpha1.NodeIPPoolStatus{Total: 5, Attached: 7},
			says:    []string{"Exhausted=True (NoneFree): every address is attached: a new pod starts here only after another pod has ended"},
		},
		"all other addresses are reserved": {
			network: plan.Network{Attachments: make([]reservation.Attachment, 4), Reservations: []reservation.Reservation{reserved(0)}},
			want:    v1alpha1.NodeIPPoolStatus{Total: 5, Attached: 4, Reserved: 1},
			says:    []string{"Exhausted=True (NoneFree): every address is attached or reserved: each new pod ends a reservation early"},
		},
		"all other addresses are reserved, with refuse": {
			network: plan.Network{
				Attachments: make([]reservation.Attachment, 4), Reservations: []reservation.Reservation{reserved(0)}, Limits: limits(3, true),
			},
			want:  v1alpha1.NodeIPPoolStatus{Total: 5, Attached: 4, Reserved: 1},
			share: 3, says: []string{
				"Exhausted=True (NoneFree): every address is attached or reserved: a new pod starts here only after another pod has ended or a reservation has lapsed",
				"ShareReached=False (ShareLeft)",
			},
		},
		"the share is used up": {
			network: plan.Network{Reservations: []reservation.Reservation{reserved(0), reserved(0)}, Limits: limits(2, false)},
			want:    v1alpha1.NodeIPPoolStatus{Total: 5, Reserved: 2, Free: 3},
			share:   2, says: []string{free, "ShareReached=True (ShareUsedUp): addresses may be reserved for 2 pods at a time: a new reservation ends another one early"},
		},
		"the share is used up, with refuse": {
			network: plan.Network{Reservations: []reservation.Reservation{reserved(0)}, Limits: limits(1, true)},
			want:    v1alpha1.NodeIPPoolStatus{Total: 5, Reserved: 1, Free: 4},
			share:   1, says: []string{free, "ShareReached=True (ShareUsedUp): addresses may be reserved for 1 pods at a time: no more reservations are made"},
		},
		"no reservations are allowed": {
			network: plan.Network{Limits: limits(0, false)},
			want:    v1alpha1.NodeIPPoolStatus{Total: 5, Free: 5},
			says:    []string{free, "ShareReached=False (NoneAllowed): ipam.maxReservedPercent is 0"},
		},
		"ranges unknown": {
			network: plan.Network{Attachments: []reservation.Attachment{attached()}, Sets: []ipam.Set{}},
			want:    v1alpha1.NodeIPPoolStatus{Attached: 1},
			says:    []string{"Exhausted=Unknown (RangesUnknown): the state file was rebuilt: the ranges are known again when the next pod starts on this node"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.network.Name = "net"
			tc.want.Node, tc.want.Network = "n1", "net"
			if tc.network.Sets == nil {
				tc.network.Sets = sets(t)
				tc.want.Ranges = []string{"10.1.0.2-10.1.0.6", "fd00::2-fd00::ffff:ffff:ffff:ffff"} // without the gateways
			}
			if tc.network.Limits != nil {
				tc.want.Share = &tc.share
			}
			var got []v1alpha1.NodeIPPoolStatus
			for _, o := range plan.Mirror("n1", []plan.Network{tc.network}, now) {
				if p, ok := o.(*v1alpha1.NodeIPPool); ok {
					got = append(got, p.Status)
				}
			}
			if diff := cmp.Diff([]v1alpha1.NodeIPPoolStatus{tc.want}, got, cmpopts.IgnoreFields(v1alpha1.NodeIPPoolStatus{}, "Conditions", "ReservedUntil")); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			var says []string
			for _, c := range got[0].Conditions {
				says = append(says, brief(c))
			}
			if diff := cmp.Diff(tc.says, says); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAPoolTellsWhenItsLastReservationEnds, in steps of ten minutes, so that few writes tell it.
func TestAPoolTellsWhenItsLastReservationEnds(t *testing.T) {
	lasts := func(d time.Duration) reservation.Reservation {
		return reserved(0, func(r *reservation.Reservation) { r.Deadline.For = d })
	}
	guest := func(r *reservation.Reservation) { r.Guest, r.Deadline.For = 8, time.Hour }
	for name, tc := range map[string]struct {
		reservations []reservation.Reservation
		want         time.Duration // from now; 0 for untold
	}{
		"none":                     {nil, 0},
		"one that has ended":       {[]reservation.Reservation{reserved(time.Hour)}, 0},
		"the later of two":         {[]reservation.Reservation{lasts(25 * time.Minute), lasts(time.Minute)}, 30 * time.Minute},
		"never before its end":     {[]reservation.Reservation{lasts(10 * time.Minute)}, 20 * time.Minute},
		"not what is lent":         {[]reservation.Reservation{lasts(time.Minute), reserved(0, func(r *reservation.Reservation) { r.Lent, r.Deadline.For = 7, time.Hour })}, 10 * time.Minute},
		"not that of another node": {[]reservation.Reservation{lasts(time.Minute), reserved(0, guest)}, 10 * time.Minute},
	} {
		objects := plan.Mirror("n1", []plan.Network{{Name: "net", Reservations: tc.reservations}}, now)
		pool, _ := objects[len(objects)-1].(*v1alpha1.NodeIPPool)
		got := time.Duration(0)
		if until := pool.Status.ReservedUntil; until != nil {
			got = until.Sub(now.Wall)
		}
		if got != tc.want {
			t.Errorf("%s: in %s, want %s", name, got, tc.want)
		}
	}
}
