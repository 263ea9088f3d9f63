package reservation_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// waiting returns the reservation of ns/pod, which has waited for so long.
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

func insists(r *reservation.Reservation) { r.Mode = reservation.Required }

func lasting(d time.Duration) func(*reservation.Reservation) {
	return func(r *reservation.Reservation) { r.Deadline.For = d }
}

func TestPlanShare(t *testing.T) {
	const minute = time.Minute
	type all = []reservation.Reservation
	for name, tc := range map[string]struct {
		pods     int64
		refuse   bool
		new      reservation.Reservation // a/new unless given
		reserved all
		turned   bool
		gaveWay  string
		lapsed   int
	}{
		"there is room": {pods: 3, reserved: all{waiting("a", "0", minute), waiting("b", "0", minute)}},
		"a share of nothing": {
			pods: 0, turned: true,
		},
		"the one that has waited longest gives way, however long it might go on": {
			pods:     3,
			reserved: all{waiting("a", "0", minute), waiting("a", "1", 3*minute, lasting(24*time.Hour)), waiting("a", "2", 2*minute, lasting(3*minute))},
			gaveWay:  "a/1",
		},
		"the namespace that holds most gives one": {
			pods:     3,
			reserved: all{waiting("b", "0", minute), waiting("b", "1", 2*minute), waiting("c", "0", 9*minute)},
			gaveWay:  "b/1",
		},
		"of two that hold as much, the one that asks gives its own": {
			pods:     3,
			reserved: all{waiting("a", "0", minute), waiting("b", "0", 9*minute), waiting("b", "1", 9*minute)},
			gaveWay:  "a/0",
		},
		"nobody pushes out one who holds no more than he would": {
			pods: 2, reserved: all{waiting("b", "0", 9*minute), waiting("c", "0", 9*minute)}, turned: true,
		},
		"of two others that hold as much, it is always the same one": {
			pods:     4,
			reserved: all{waiting("c", "0", minute), waiting("c", "1", minute), waiting("b", "0", minute), waiting("b", "1", 2*minute)},
			gaveWay:  "b/1",
		},
		"those that insist go last": {
			pods: 2, reserved: all{waiting("a", "0", 9*minute, insists), waiting("a", "1", minute)}, gaveWay: "a/1",
		},
		"one that does not insist pushes out none that does": {
			pods: 2, reserved: all{waiting("a", "0", 9*minute, insists), waiting("a", "1", minute, insists)}, turned: true,
		},
		"one that insists pushes out one that does": {
			pods: 1, new: waiting("a", "new", 0, insists), reserved: all{waiting("a", "0", minute, insists)}, gaveWay: "a/0",
		},
		"to insist helps against nobody's fair part": {
			pods: 2, reserved: all{waiting("b", "0", 2*minute, insists), waiting("b", "1", minute, insists)}, gaveWay: "b/0",
		},
		"lapsed ones do not count": {
			pods: 2, reserved: all{waiting("b", "0", time.Hour), waiting("b", "1", minute)}, lapsed: 1,
		},
		"one of the owner's own is replaced": {
			pods: 2, reserved: all{waiting("a", "new", minute), waiting("b", "1", minute)},
		},
		"more than the share of today, one for one": {
			pods: 1, reserved: all{waiting("b", "0", minute), waiting("b", "1", 2*minute), waiting("b", "2", minute)}, gaveWay: "b/1",
		},
		"refuse: no other gives way": {
			pods: 2, refuse: true, turned: true,
			reserved: all{waiting("b", "0", minute), waiting("b", "1", minute)},
		},
		"refuse: a namespace leaves a quarter to others": {
			pods: 4, refuse: true, turned: true,
			reserved: all{waiting("a", "0", minute), waiting("a", "1", minute), waiting("a", "2", minute)},
		},
		"refuse: which others have": {
			pods: 4, refuse: true,
			reserved: all{waiting("b", "0", minute), waiting("b", "1", minute), waiting("b", "2", minute)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.new.Owner.Pod == "" {
				tc.new = waiting("a", "new", 0)
			}
			d := reservation.PlanShare(reservation.ShareInput{
				Now: now, Share: reservation.Share{Pods: tc.pods, Refuse: tc.refuse}, New: tc.new, Reserved: tc.reserved,
			})
			gaveWay := ""
			if d.Displaced != nil {
				gaveWay = d.Displaced.Owner.String()
			}
			if turned := d.Verdict == reservation.ShareRefused; turned != tc.turned || gaveWay != tc.gaveWay || len(d.Lapsed) != tc.lapsed {
				t.Errorf("turned away %t, gave way %q, lapsed %d (%s); want %t, %q, %d", turned, gaveWay, len(d.Lapsed), d.Reason, tc.turned, tc.gaveWay, tc.lapsed)
			}
			if (d.Reason == "") != (!tc.turned && tc.gaveWay == "") {
				t.Errorf("reason %q", d.Reason)
			}
		})
	}
}

// TestNoNamespaceStarvesTheOthers lets namespaces ask one after the other, each for as
// many as it can get.
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

// admit does what is decided.
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

func TestRoomyNeverPromisesTooMuch(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		for pods := range int64(30) {
			share := reservation.Share{Pods: pods, Refuse: refuse}
			var held []reservation.Reservation
			for len(held) < 40 {
				d := reservation.PlanShare(reservation.ShareInput{Now: now, Share: share, New: waiting("a", "new", 0), Reserved: held})
				if asked := d.Verdict == reservation.ShareRefused || d.Displaced != nil; share.HasRoom(int64(len(held))) && asked {
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
		"half of the largest":          {1 << 53, 50, 1 << 52},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reservation.NewShare(tc.pool, tc.percent, false); got.Pods != tc.want {
				t.Errorf("%d, want %d", got.Pods, tc.want)
			}
		})
	}
}
