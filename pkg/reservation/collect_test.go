package reservation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestPlanCollect(t *testing.T) {
	attachment := func(container string, seq uint64) reservation.Attachment {
		return reservation.Attachment{ID: reservation.AttachmentID{Network: "net", ContainerID: container, IfName: "eth0"}, Seq: seq}
	}
	placeholder := attachment(reservation.NetNSPlaceholder(reservation.NetNS{Path: "/netns/a"}), 3)
	old, newer := attachment("old", 1), attachment("new", 2)
	for name, tc := range map[string]struct {
		valid []reservation.Attachment
		alive bool
		want  []uint64
	}{
		"without valid attachments the newest ends first": {want: []uint64{3, 2, 1}},
		"a valid attachment stays":                        {valid: []reservation.Attachment{newer}, want: []uint64{3, 1}},
		"what a namespace still has stays":                {alive: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := reservation.CollectInput{
				Attachments: []reservation.Attachment{old, newer, placeholder}, Valid: map[reservation.AttachmentID]bool{},
				Alive: func(reservation.Attachment) bool { return tc.alive },
			}
			for _, a := range tc.valid {
				in.Valid[a.ID] = true
			}
			var got []uint64
			for _, a := range reservation.PlanCollect(in) {
				got = append(got, a.Seq)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ended (-want +got):\n%s", diff)
			}
		})
	}
}
