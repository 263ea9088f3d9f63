package ipam_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/ipam"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestReclaimStepsEndAReservationLast(t *testing.T) {
	for name, tc := range map[string]struct {
		byNumber bool
		want     []ipam.ReclaimStep
	}{
		"any address":          {want: []ipam.ReclaimStep{ipam.DropLapsed, ipam.DropAbandoned, ipam.EndSoonest}},
		"an address by number": {byNumber: true, want: []ipam.ReclaimStep{ipam.DropLapsed, ipam.DropAbandoned}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ipam.ReclaimSteps(tc.byNumber); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPlanReclaim(t *testing.T) {
	set, err := ipam.Set{{Subnet: netip.MustParsePrefix("10.1.0.0/29")}}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	now := reservation.Moment{Wall: time.Unix(1_000_000, 0), BootID: "boot", Up: time.Hour}
	kept := func(pod, addr string, left time.Duration, mode reservation.Mode) reservation.Reservation {
		return reservation.Reservation{
			Owner: reservation.Owner{Namespace: "ns", Pod: pod}, Addresses: []netip.Addr{netip.MustParseAddr(addr)},
			Deadline: reservation.Deadline{From: now, For: left}, Mode: mode,
		}
	}
	soon := kept("soon", "10.1.0.2", time.Minute, reservation.Preferred)
	late := kept("late", "10.1.0.3", time.Hour, reservation.Preferred)
	required := kept("required", "10.1.0.4", time.Second, reservation.Required)
	gateway := kept("gateway", "10.1.0.1", time.Second, reservation.Preferred)
	other := kept("other", "10.2.0.2", time.Second, reservation.Preferred)
	unreadable := errors.New("unreadable")
	for name, tc := range map[string]struct {
		reserved []reservation.Reservation
		refuse   bool
		taken    func(netip.Addr) (bool, error)
		want     string
		err      error
	}{
		"no reservation":                   {},
		"the one that ends soonest":        {reserved: []reservation.Reservation{late, soon}, want: "soon"},
		"required goes last":               {reserved: []reservation.Reservation{required, late}, want: "late"},
		"required goes when alone":         {reserved: []reservation.Reservation{required}, want: "required"},
		"the network refuses":              {reserved: []reservation.Reservation{soon}, refuse: true},
		"the gateway is of no use":         {reserved: []reservation.Reservation{gateway, late}, want: "late"},
		"other range sets are of no use":   {reserved: []reservation.Reservation{other, late}, want: "late"},
		"held outside, so it is of no use": {reserved: []reservation.Reservation{soon, late}, taken: takes(soon), want: "late"},
		"all held outside":                 {reserved: []reservation.Reservation{soon}, taken: takes(soon)},
		"holder outside cannot be read": {
			reserved: []reservation.Reservation{soon}, taken: func(netip.Addr) (bool, error) { return false, unreadable }, err: unreadable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ipam.PlanReclaim(ipam.ReclaimInput{Now: now, Set: set, Refuse: tc.refuse, Reserved: tc.reserved, Taken: tc.taken})
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			pod := ""
			if got != nil {
				pod = got.Owner.Pod
			}
			if err == nil && pod != tc.want {
				t.Errorf("%q gives way, want %q", pod, tc.want)
			}
		})
	}
}

func takes(r reservation.Reservation) func(netip.Addr) (bool, error) {
	return func(a netip.Addr) (bool, error) { return slices.Contains(r.Addresses, a), nil }
}
