package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestMirrorOfAnOwner(t *testing.T) {
	asks := attached(func(a *reservation.Attachment) { a.Addresses, a.Retain = addrs, 10*time.Minute })
	predecessor := asks
	predecessor.ID.ContainerID, predecessor.UID, predecessor.Addresses = "c-old", "uid-old", addrs[:1]
	asks.Seq = 2
	predecessor.Seq = 1
	steppedBack := reserved(30 * time.Second)
	steppedBack.Deadline.From.Wall = steppedBack.Deadline.From.Wall.Add(time.Hour)
	base := v1alpha1.IPReservationStatus{
		Node: "n1", Network: "net", Interface: "eth0", Pod: "web-0", PodUID: "uid", IPs: "10.1.0.2,fd00::2", RetainMinutes: 10,
	}
	with := func(state v1alpha1.IPState) *v1alpha1.IPReservationStatus {
		s := base
		s.State = state
		return &s
	}
	for name, tc := range map[string]struct {
		network plan.Network
		want    *v1alpha1.IPReservationStatus
		until   time.Time
	}{
		"an attached owner that asked": {
			network: plan.Network{Attachments: []reservation.Attachment{asks}}, want: with(v1alpha1.IPAttached),
		},
		"an attached owner that asked for nothing": {
			network: plan.Network{Attachments: []reservation.Attachment{attached()}},
		},
		"a reservation": {
			network: plan.Network{Reservations: []reservation.Reservation{reserved(30 * time.Second)}},
			want:    with(v1alpha1.IPReserved), until: now.Wall.Add(9*time.Minute + 30*time.Second),
		},
		"a reservation in its last minute": {
			network: plan.Network{Reservations: []reservation.Reservation{reserved(9*time.Minute + time.Second)}},
			want:    with(v1alpha1.IPReserved), until: now.Wall.Add(59 * time.Second),
		},
		"an attached owner whose predecessor is attached, too": {
			network: plan.Network{Attachments: []reservation.Attachment{asks, predecessor}}, want: with(v1alpha1.IPAttached),
		},
		"an attached owner whose predecessor is listed first": {
			network: plan.Network{Attachments: []reservation.Attachment{predecessor, asks}}, want: with(v1alpha1.IPAttached),
		},
		"a reservation of before the wall clock was set back by an hour": {
			network: plan.Network{Reservations: []reservation.Reservation{steppedBack}},
			want:    with(v1alpha1.IPReserved), until: now.Wall.Add(9*time.Minute + 30*time.Second),
		},
		"a lapsed reservation": {
			network: plan.Network{Reservations: []reservation.Reservation{reserved(10 * time.Minute)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.network.Name, tc.network.Sets = "net", sets(t)
			var got *v1alpha1.IPReservationStatus
			for _, o := range plan.Mirror("n1", []plan.Network{tc.network}, now) {
				if o.GetLabels()[v1alpha1.LabelNode] != "n1" {
					t.Errorf("%s lacks its node's label", o.GetName())
				}
				if r, ok := o.(*v1alpha1.IPReservation); ok {
					if got != nil {
						t.Errorf("a second object of the owner: %+v", r.Status)
					}
					got = &r.Status
				}
			}
			if got != nil && got.Until != nil {
				if !got.Until.Time.Equal(tc.until) {
					t.Errorf("until = %s, want %s", got.Until, tc.until)
				}
				got.Until = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamesOfMirrors checks that object names are valid, and that no two owners share one.
func TestNamesOfMirrors(t *testing.T) {
	type parts struct{ pod, ifName, network, node string }
	names := map[string]parts{}
	for _, p := range []parts{
		{"web-0", "eth0", "net", "n1"},
		{"web-0", "eth0", "net", "n1.example.com"},
		{"web-0", "net1", "net", "n1"},
		{"web-0", "eth0", "Net_2", "n1"},
		{"web-0", "eth0", "net.2", "n1"},
		{"web-0", "eth0", "net", "2.n1"},
		{"a", "b", "c.d", "n1"},
		{"a.b", "c", "d", "n1"},
		{"a", "b", "c", "d.n1"},
		{strings.Repeat("p", 253), "eth0", "net", "n1"},
		{strings.Repeat("p", 253), "eth1", "net", "n1"},
	} {
		a := attached(func(a *reservation.Attachment) {
			a.Owner.Pod, a.Owner.IfName, a.Owner.Network, a.Retain = p.pod, p.ifName, p.network, time.Minute
		})
		objects := plan.Mirror(p.node, []plan.Network{{Name: p.network, Attachments: []reservation.Attachment{a}}}, now)
		name := objects[0].GetName()
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%+v: name %q: %v", p, name, problems)
		}
		if other, taken := names[name]; taken {
			t.Errorf("%+v and %+v are both called %q", p, other, name)
		}
		names[name] = p
	}
}
