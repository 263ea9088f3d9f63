package reservation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// waiting returns a reservation of ns/pod that began the given time ago.
func waiting(ns, pod string, waited time.Duration, change ...func(*reservation.Reservation)) reservation.Reservation {
	r := reservation.Reservation{
		Owner:    reservation.Owner{Network: "net", Namespace: ns, Pod: pod, IfName: "eth0"},
		Deadline: reservation.Deadline{From: ago(waited), For: time.Hour}, Seq: 1,
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func required(r *reservation.Reservation) { r.Mode = reservation.Required }

func follows(r *reservation.Reservation) {
	r.Mode, r.Deadline.For = reservation.Follow, reservation.Forever
}

func onLoan(r *reservation.Reservation) { follows(r); r.Lent = 7 }

func lasting(d time.Duration) func(*reservation.Reservation) {
	return func(r *reservation.Reservation) { r.Deadline.For = d }
}

func TestPlanShare(t *testing.T) {
	const minute = time.Minute
	type all = []reservation.Reservation
	for name, tc := range map[string]struct {
		pods      int64
		quota     int64
		refuse    bool
		new       reservation.Reservation // a/new unless given
		reserved  all
		refused   bool
		displaced string
		quotaUsed bool
		lapsed    int
	}{
		"there is room": {pods: 3, reserved: all{waiting("a", "0", minute), waiting("b", "0", minute)}},
		"a share of nothing": {
			pods: 0, refused: true,
		},
		"the reservation that has waited longest gives way, whatever its deadline": {
			pods:      3,
			reserved:  all{waiting("a", "0", minute), waiting("a", "1", 3*minute, lasting(24*time.Hour)), waiting("a", "2", 2*minute, lasting(3*minute))},
			displaced: "a/1",
		},
		"the namespace with the most reservations gives one": {
			pods:      3,
			reserved:  all{waiting("b", "0", minute), waiting("b", "1", 2*minute), waiting("c", "0", 9*minute)},
			displaced: "b/1",
		},
		"among equals the asking namespace gives one": {
			pods:      3,
			reserved:  all{waiting("a", "0", minute), waiting("b", "0", 9*minute), waiting("b", "1", 9*minute)},
			displaced: "a/0",
		},
		"a namespace with as few reservations gives none": {
			pods: 2, reserved: all{waiting("b", "0", 9*minute), waiting("c", "0", 9*minute)}, refused: true,
		},
		"among other equals the first name gives one": {
			pods:      4,
			reserved:  all{waiting("c", "0", minute), waiting("c", "1", minute), waiting("b", "0", minute), waiting("b", "1", 2*minute)},
			displaced: "b/1",
		},
		"reservations with mode required go last": {
			pods: 2, reserved: all{waiting("a", "0", 9*minute, required), waiting("a", "1", minute)}, displaced: "a/1",
		},
		"those that follow go after them": {
			pods: 2, new: waiting("a", "new", 0, follows), reserved: all{waiting("a", "0", 9*minute, follows), waiting("a", "1", minute, required)}, displaced: "a/1",
		},
		"one on loan does not go": {
			pods: 2, new: waiting("a", "new", 0, follows), reserved: all{waiting("a", "0", 9*minute, onLoan), waiting("a", "1", minute, follows)}, displaced: "a/1",
		},
		"none goes where all are on loan": {
			pods: 2, reserved: all{waiting("b", "0", 9*minute, onLoan), waiting("b", "1", minute, onLoan)}, refused: true,
		},
		"mode preferred displaces no reservation with mode required": {
			pods: 2, reserved: all{waiting("a", "0", 9*minute, required), waiting("a", "1", minute, required)}, refused: true,
		},
		"mode required displaces another with mode required": {
			pods: 1, new: waiting("a", "new", 0, required), reserved: all{waiting("a", "0", minute, required)}, displaced: "a/0",
		},
		"mode required does not help against the fair part of another namespace": {
			pods: 2, reserved: all{waiting("b", "0", 2*minute, required), waiting("b", "1", minute, required)}, displaced: "b/0",
		},
		"lapsed reservations do not count": {
			pods: 2, reserved: all{waiting("b", "0", time.Hour), waiting("b", "1", minute)}, lapsed: 1,
		},
		"the owner's own reservation is replaced": {
			pods: 2, reserved: all{waiting("a", "new", minute), waiting("b", "1", minute)},
		},
		"above the share, which became smaller, one gives way for one": {
			pods: 1, reserved: all{waiting("b", "0", minute), waiting("b", "1", 2*minute), waiting("b", "2", minute)}, displaced: "b/1",
		},
		"below the quota there is room": {
			pods: 9, quota: 2, reserved: all{waiting("a", "0", minute), waiting("b", "0", minute), waiting("b", "1", minute)},
		},
		"a namespace that has used up its quota gives one of its own, whatever others hold": {
			pods: 9, quota: 2, displaced: "a/1", quotaUsed: true,
			reserved: all{waiting("a", "0", minute), waiting("a", "1", 2*minute), waiting("b", "0", 9*minute), waiting("b", "1", 9*minute), waiting("b", "2", 9*minute)},
		},
		"also where the share is used up": {
			pods: 4, quota: 1, displaced: "a/0", quotaUsed: true,
			reserved: all{waiting("a", "0", minute), waiting("b", "0", 9*minute), waiting("b", "1", 9*minute), waiting("b", "2", 9*minute)},
		},
		"within the quota, mode preferred displaces no reservation with mode required": {
			pods: 9, quota: 1, reserved: all{waiting("a", "0", 9*minute, required)}, refused: true, quotaUsed: true,
		},
		"the quota does not count the reservation that is replaced": {
			pods: 9, quota: 1, reserved: all{waiting("a", "new", minute)},
		},
		"nor lapsed ones": {
			pods: 9, quota: 1, reserved: all{waiting("a", "0", time.Hour)}, lapsed: 1,
		},
		"above the quota, which became smaller, one gives way for one": {
			pods: 9, quota: 1, reserved: all{waiting("a", "0", minute), waiting("a", "1", 2*minute)}, displaced: "a/1", quotaUsed: true,
		},
		"refuse: a namespace that has used up its quota gets no more": {
			pods: 9, quota: 1, refuse: true, reserved: all{waiting("a", "0", minute)}, refused: true, quotaUsed: true,
		},
		"refuse: no other gives way": {
			pods: 2, refuse: true, refused: true,
			reserved: all{waiting("b", "0", minute), waiting("b", "1", minute)},
		},
		"refuse: a namespace leaves a quarter to others": {
			pods: 4, refuse: true, refused: true,
			reserved: all{waiting("a", "0", minute), waiting("a", "1", minute), waiting("a", "2", minute)},
		},
		"refuse: and others may have that quarter": {
			pods: 4, refuse: true,
			reserved: all{waiting("b", "0", minute), waiting("b", "1", minute), waiting("b", "2", minute)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.new.Owner.Pod == "" {
				tc.new = waiting("a", "new", 0)
			}
			d := reservation.PlanShare(reservation.ShareInput{
				Now: now, Share: reservation.Share{Pods: tc.pods, PerNamespace: tc.quota, Refuse: tc.refuse}, New: tc.new, Reserved: tc.reserved,
			})
			displaced := ""
			if d.Displaced != nil {
				displaced = d.Displaced.Owner.String()
			}
			if refused := d.Verdict == reservation.ShareRefused; refused != tc.refused || displaced != tc.displaced || len(d.Lapsed) != tc.lapsed {
				t.Errorf("refused %t, displaced %q, lapsed %d (%s); want %t, %q, %d", refused, displaced, len(d.Lapsed), d.Reason, tc.refused, tc.displaced, tc.lapsed)
			}
			if (d.Reason == "") != (!tc.refused && tc.displaced == "") || d.OverQuota != tc.quotaUsed {
				t.Errorf("reason %q, quota used up %t", d.Reason, d.OverQuota)
			}
		})
	}
}

// TestNoNamespaceStarvesTheOthers lets namespaces ask one after the other, each for as many reservations as it gets.
func TestNoNamespaceStarvesTheOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		refuse bool
		want   map[string]int
	}{
		"reclaim shares evenly":           {refuse: false, want: map[string]int{"a": 42, "b": 42, "c": 42}},
		"refuse leaves some to the later": {refuse: true, want: map[string]int{"a": 95, "b": 24, "c": 6}},
	} {
		t.Run(name, func(t *testing.T) {
			share := reservation.Share{Pods: 126, Refuse: tc.refuse}
			var held []reservation.Reservation
			for i, ns := range []string{"a", "b", "c"} {
				for n := range 300 {
					later := now
					later.Up += time.Duration(i*300+n) * time.Second
					asks := waiting(ns, string(rune('0'+n)), 0, lasting(24*time.Hour))
					asks.Deadline.From = later
					held = admit(held, reservation.ShareInput{Now: later, Share: share, New: asks, Reserved: held})
				}
			}
			got := map[string]int{}
			for _, r := range held {
				got[r.Owner.Namespace]++
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("held at last (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoNamespaceExceedsItsQuota lets namespaces ask in a random order. Where the share has room, the reservations of one
// namespace are enough for the decision.
func TestNoNamespaceExceedsItsQuota(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		share := reservation.Share{Pods: 1 + r.Int64N(20), PerNamespace: 1 + r.Int64N(6), Refuse: r.IntN(2) == 0}
		var held []reservation.Reservation
		for n := range 100 {
			later := now
			later.Up += time.Duration(n) * time.Second
			asks := waiting(fmt.Sprint(r.IntN(4)), fmt.Sprint(r.IntN(30)), 0)
			asks.Deadline.From, asks.Mode = later, reservation.Mode(r.IntN(2))
			in := reservation.ShareInput{Now: later, Share: share, New: asks, Reserved: held}
			d := reservation.PlanShare(in)
			if share.HasRoom(int64(len(held))) {
				in.Reserved = slices.DeleteFunc(slices.Clone(held), func(r reservation.Reservation) bool { return r.Owner.Namespace != asks.Owner.Namespace })
				if diff := cmp.Diff(d, reservation.PlanShare(in)); diff != "" {
					t.Fatalf("seed %d: with the reservations of the namespace alone (-all +own):\n%s", seed, diff)
				}
				in.Reserved = held
			}
			if d.OverQuota && d.Displaced != nil && d.Displaced.Owner.Namespace != asks.Owner.Namespace {
				t.Fatalf("seed %d: the quota of %s displaced %s", seed, asks.Owner, d.Displaced.Owner)
			}
			held = slices.DeleteFunc(held, func(r reservation.Reservation) bool {
				return d.Verdict == reservation.ShareGranted && r.Owner == asks.Owner
			})
			held = admit(held, in)
			of := map[string]int64{}
			for _, r := range held {
				of[r.Owner.Namespace]++
			}
			if of[asks.Owner.Namespace] > share.PerNamespace || int64(len(held)) > share.Pods {
				t.Fatalf("seed %d: %v of %+v", seed, of, share)
			}
		}
	}
}

// admit applies the decision of PlanShare.
func admit(held []reservation.Reservation, in reservation.ShareInput) []reservation.Reservation {
	d := reservation.PlanShare(in)
	if d.Verdict == reservation.ShareRefused {
		return held
	}
	var left []reservation.Reservation
	for _, r := range held {
		if d.Displaced == nil || d.Displaced.Owner != r.Owner {
			left = append(left, r)
		}
	}
	return append(left, in.New)
}

func TestHasRoomNeverPromisesTooMuch(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		for pods := range int64(30) {
			share := reservation.Share{Pods: pods, PerNamespace: pods / 2, Refuse: refuse}
			var held []reservation.Reservation
			for len(held) < 40 {
				d := reservation.PlanShare(reservation.ShareInput{Now: now, Share: share, New: waiting("a", "new", 0), Reserved: held})
				if asked := d.Verdict == reservation.ShareRefused || d.Displaced != nil; share.HasRoom(int64(len(held))) && share.HasRoomOf(int64(len(held))) && asked {
					t.Errorf("%+v has room beside %d, and yet: %s", share, len(held), d.Reason)
				}
				held = append(held, waiting("a", string(rune('0'+len(held))), time.Minute))
			}
		}
	}
}

func TestNewShare(t *testing.T) {
	for name, tc := range map[string]struct {
		pool    int64
		percent int
		want    int64
	}{
		"half of a /24":                {253, 50, 127},
		"all of it":                    {253, 100, 253},
		"none":                         {253, 0, 0},
		"the smallest pool serves one": {1, 50, 1},
		"a tenth of a small one":       {5, 10, 1},
		"half of an IPv4 /16":          {65533, 50, 10_000},
		"half of the largest":          {1 << 53, 50, 10_000},
		"none of the largest":          {1 << 53, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reservation.NewShare(tc.pool, tc.percent, false); got.Pods != tc.want {
				t.Errorf("%d, want %d", got.Pods, tc.want)
			}
		})
	}
}

func TestWithQuota(t *testing.T) {
	for name, tc := range map[string]struct {
		quota reservation.Quota
		want  int64
	}{
		"none":                              {},
		"a number":                          {quota: reservation.Quota{Pods: 10}, want: 10},
		"a part, rounded up":                {quota: reservation.Quota{Percent: 10}, want: 26},
		"the lower one counts":              {quota: reservation.Quota{Pods: 10, Percent: 10}, want: 10},
		"the share is reached first":        {quota: reservation.Quota{Pods: 127}},
		"half of the pool is all the share": {quota: reservation.Quota{Percent: 50}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reservation.NewShare(253, 50, false).WithQuota(253, tc.quota); got.PerNamespace != tc.want || got.Pods != 127 {
				t.Errorf("got %+v, want %d", got, tc.want)
			}
		})
	}
}
