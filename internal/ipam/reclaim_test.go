package ipam_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestReclaimStepsEndAReservationLast(t *testing.T) {
	for name, tc := range map[string]struct {
		byNumber bool
		want     []ipam.ReclaimStep
	}{
		"any address":          {want: []ipam.ReclaimStep{ipam.DropLapsed, ipam.DropAbandoned, ipam.EndReservation}},
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
		ns, _, found := strings.Cut(pod, "/")
		if !found {
			ns = "ns"
		}
		return reservation.Reservation{
			Owner: reservation.Owner{Namespace: ns, Pod: pod}, Addresses: []netip.Addr{netip.MustParseAddr(addr)},
			Deadline: reservation.Deadline{From: now, For: left}, Mode: mode,
		}
	}
	soon := kept("soon", "10.1.0.2", time.Minute, reservation.Preferred)
	late := kept("late", "10.1.0.3", time.Hour, reservation.Preferred)
	required := kept("required", "10.1.0.4", time.Second, reservation.Required)
	follow := kept("follow", "10.1.0.3", time.Second, reservation.Follow)
	lent, guest := follow, follow
	lent.Lent, guest.Guest = 7, 8
	gateway := kept("gateway", "10.1.0.1", time.Second, reservation.Preferred)
	other := kept("other", "10.2.0.2", time.Second, reservation.Preferred)
	unreadable := errors.New("unreadable")
	const day = 24 * time.Hour
	type all = []reservation.Reservation
	for name, tc := range map[string]struct {
		asks     string // the namespace of the pod
		reserved []reservation.Reservation
		refuse   bool
		taken    func(netip.Addr) (bool, error)
		want     string
		err      error
	}{
		"no reservation": {},
		"the namespace with most gives one, whatever its mode and deadline": {
			reserved: all{kept("a/0", "10.1.0.2", time.Second, reservation.Preferred), kept("b/0", "10.1.0.3", day, reservation.Required), kept("b/1", "10.1.0.4", 2*day, reservation.Required)},
			want:     "b/0",
		},
		"among equals the namespace of the pod": {
			reserved: all{kept("a/0", "10.1.0.2", time.Second, reservation.Preferred), kept("b/0", "10.1.0.3", day, reservation.Required)},
			asks:     "b", want: "b/0",
		},
		"among other equals the first name": {
			reserved: all{kept("b/0", "10.1.0.2", time.Second, reservation.Preferred), kept("a/0", "10.1.0.3", day, reservation.Required)},
			asks:     "c", want: "a/0",
		},
		"reservations in other range sets count, and are of no use": {
			reserved: all{kept("a/0", "10.2.0.2", day, reservation.Preferred), kept("a/1", "10.2.0.3", day, reservation.Preferred), kept("a/2", "10.1.0.2", time.Second, reservation.Preferred), kept("b/0", "10.1.0.3", day, reservation.Preferred), kept("b/1", "10.1.0.4", 2*day, reservation.Preferred)},
			want:     "a/2",
		},
		"the next namespace, when the first has none in the set": {
			reserved: all{kept("a/0", "10.2.0.2", day, reservation.Preferred), kept("a/1", "10.2.0.3", day, reservation.Preferred), kept("b/0", "10.1.0.3", day, reservation.Preferred)},
			asks:     "c", want: "b/0",
		},
		"the next namespace, when the first has no address of use": {
			reserved: all{kept("a/0", "10.1.0.2", time.Second, reservation.Preferred), kept("b/0", "10.1.0.3", day, reservation.Preferred), kept("b/1", "10.1.0.4", day, reservation.Preferred)},
			taken:    takes(kept("", "10.1.0.3", 0, 0), kept("", "10.1.0.4", 0, 0)), want: "a/0",
		},
		"the one that ends soonest":        {reserved: []reservation.Reservation{late, soon}, want: "soon"},
		"required goes last":               {reserved: []reservation.Reservation{required, late}, want: "late"},
		"one that follows goes after it":   {reserved: []reservation.Reservation{follow, required}, want: "required"},
		"one on loan never goes":           {reserved: []reservation.Reservation{lent, guest}},
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
			got, err := ipam.PlanReclaim(ipam.ReclaimInput{Now: now, Set: set, Refuse: tc.refuse, Namespace: tc.asks, Reserved: tc.reserved, Taken: tc.taken})
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			pod := ""
			if got.GivesWay != nil {
				pod = got.GivesWay.Owner.Pod
			}
			if err == nil && pod != tc.want || (got.Reason == "") != (pod == "") {
				t.Errorf("%q gives way (%s), want %q", pod, got.Reason, tc.want)
			}
		})
	}
}

func takes(all ...reservation.Reservation) func(netip.Addr) (bool, error) {
	return func(a netip.Addr) (bool, error) {
		return slices.ContainsFunc(all, func(r reservation.Reservation) bool { return slices.Contains(r.Addresses, a) }), nil
	}
}

// TestNoNamespaceLosesToOneThatHoldsMore draws reservations of some namespaces, and lets pods of one of them take as many
// addresses as there are.
func TestNoNamespaceLosesToOneThatHoldsMore(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	set, err := ipam.Set{{Subnet: netip.MustParsePrefix("10.1.0.0/24")}}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	now := reservation.Moment{Wall: time.Unix(1_000_000, 0), BootID: "boot", Up: 48 * time.Hour}
	for range 300 {
		asks, of := fmt.Sprint(r.IntN(4)), map[string]int{}
		var held []reservation.Reservation
		for i := range 1 + r.IntN(40) {
			ns := fmt.Sprint(r.IntN(1 + r.IntN(4)))
			of[ns]++
			held = append(held, reservation.Reservation{
				Owner: reservation.Owner{Namespace: ns, Pod: fmt.Sprint(i)}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 0, byte(2 + i)})},
				Deadline: reservation.Deadline{From: now, For: time.Duration(1 + r.IntN(1000))}, Mode: reservation.Mode(r.IntN(2)), Seq: uint64(i),
			})
		}
		for len(held) > 0 {
			d, err := ipam.PlanReclaim(ipam.ReclaimInput{Now: now, Set: set, Namespace: asks, Reserved: held})
			if err != nil || d.GivesWay == nil {
				t.Fatalf("seed %d: none of %d gives way: %v", seed, len(held), err)
			}
			loses := d.GivesWay.Owner.Namespace
			if loses != asks && of[asks] >= of[loses] {
				t.Fatalf("seed %d: namespace %s of %d loses one to namespace %s of %d", seed, loses, of[loses], asks, of[asks])
			}
			if of[loses]*len(of) < len(held) {
				t.Fatalf("seed %d: namespace %s has less than its part: %d of %d, of %d namespaces", seed, loses, of[loses], len(held), len(of))
			}
			for _, other := range held {
				if other.Owner.Namespace == loses && other.Mode < d.GivesWay.Mode {
					t.Fatalf("seed %d: a required reservation goes before a preferred one of its namespace", seed)
				}
			}
			if of[loses]--; of[loses] == 0 {
				delete(of, loses)
			}
			held = slices.DeleteFunc(held, func(r reservation.Reservation) bool { return r.Owner == d.GivesWay.Owner })
		}
	}
}

// BenchmarkPlanReclaim is the decision alone, without reading the reservations.
func BenchmarkPlanReclaim(b *testing.B) {
	set, err := ipam.Set{{Subnet: netip.MustParsePrefix("10.0.0.0/8")}}.Complete()
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{127, 2_000, 25_000} {
		var held []reservation.Reservation
		for i := range n {
			held = append(held, reservation.Reservation{
				Owner:     reservation.Owner{Namespace: fmt.Sprint(i % 7), Pod: fmt.Sprint(i)},
				Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}, Deadline: reservation.Deadline{For: time.Duration(i*7919%n) * time.Second},
			})
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if d, err := ipam.PlanReclaim(ipam.ReclaimInput{Set: set, Namespace: "3", Reserved: held}); err != nil || d.GivesWay == nil {
					b.Fatal(err)
				}
			}
		})
	}
}
