package plan_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestRefill reserves what the API shows of a node, and nothing else.
func TestRefill(t *testing.T) {
	shown := func(change func(*v1alpha1.IPReservationStatus)) v1alpha1.IPReservation {
		o := v1alpha1.IPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: "db"}, Status: v1alpha1.IPReservationStatus{
			Node: "n1", Network: "net", Interface: "eth0", Pod: "db-0", PodUID: "uid", IPs: "10.1.0.2,fd00::2", State: v1alpha1.IPAttached, RetainMinutes: 10,
		}}
		change(&o.Status)
		return o
	}
	want := reservation.Reservation{
		Owner: reservation.Owner{Network: "net", Namespace: "db", Pod: "db-0", IfName: "eth0"}, UID: "uid", Retain: 10 * time.Minute,
		Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("fd00::2")},
		Deadline:  reservation.Deadline{From: now, For: 10 * time.Minute},
	}
	until := metav1.NewTime(now.Wall.Add(4 * time.Minute))
	left, unsure := want, now
	left.Deadline.For, unsure.Unsure = 4*time.Minute, true
	full := want
	full.Deadline.From = unsure
	follows, always := want, int32(reservation.Forever/time.Minute)
	follows.Mode, follows.Retain, follows.Deadline.For = reservation.Follow, reservation.Forever, reservation.Forever
	for name, tc := range map[string]struct {
		change func(*v1alpha1.IPReservationStatus)
		now    reservation.Moment
		want   []reservation.Reservation
	}{
		"a pod that ran":                             {func(*v1alpha1.IPReservationStatus) {}, now, []reservation.Reservation{want}},
		"the rest of a reservation":                  {func(s *v1alpha1.IPReservationStatus) { s.Until = &until }, now, []reservation.Reservation{left}},
		"… while the clock is not known to be right": {func(s *v1alpha1.IPReservationStatus) { s.Until = &until }, unsure, []reservation.Reservation{full}},
		"a reservation that is over":                 {func(s *v1alpha1.IPReservationStatus) { s.Until = &metav1.Time{Time: now.Wall} }, now, nil},
		"a pod that follows":                         {func(s *v1alpha1.IPReservationStatus) { s.RetainMinutes, s.Until = always, &until }, now, []reservation.Reservation{follows}},
		"another node's":                             {func(s *v1alpha1.IPReservationStatus) { s.Node = "n2" }, now, nil},
		"no addresses":                               {func(s *v1alpha1.IPReservationStatus) { s.IPs = "fe80::1%eth0,x" }, now, nil},
		"an address twice":                           {func(s *v1alpha1.IPReservationStatus) { s.IPs = "10.1.0.2,fd00::2,10.1.0.2" }, now, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := plan.Refill("n1", []v1alpha1.IPReservation{shown(tc.change)}, time.Hour, tc.now)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
