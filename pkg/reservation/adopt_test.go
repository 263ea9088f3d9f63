package reservation_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestIsNewestLife(t *testing.T) {
	began := time.Unix(1000, 0)
	known := func(since int64, alive bool) []reservation.Predecessor {
		return []reservation.Predecessor{{Attachment: reservation.Attachment{Since: reservation.Moment{Wall: time.Unix(since, 0)}}, Alive: alive}}
	}
	reserved := func(from int64) *reservation.Reservation {
		return &reservation.Reservation{Deadline: reservation.Deadline{From: reservation.Moment{Wall: time.Unix(from, 0)}}}
	}
	for name, tc := range map[string]struct {
		in   reservation.AdoptInput
		want bool
	}{
		"an owner that the state does not know": {want: true},
		"an earlier attachment that is gone":    {in: reservation.AdoptInput{Known: known(999, false)}, want: true},
		"an earlier attachment that lives":      {in: reservation.AdoptInput{Known: known(999, true)}},
		"a later attachment":                    {in: reservation.AdoptInput{Known: known(1001, false)}},
		"an attachment of the same moment":      {in: reservation.AdoptInput{Known: known(1000, false)}},
		"an earlier reservation":                {in: reservation.AdoptInput{Reserved: reserved(999)}, want: true},
		"a later reservation":                   {in: reservation.AdoptInput{Reserved: reserved(1001)}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.Began = began
			if got := reservation.IsNewestLife(tc.in); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestMergeSeen(t *testing.T) {
	seen := func(container, pod string) reservation.Attachment {
		return reservation.Attachment{ID: reservation.AttachmentID{ContainerID: container}, Owner: reservation.Owner{Pod: pod}}
	}
	got := reservation.MergeSeen(
		[]reservation.Attachment{seen("both", "web-0"), seen("cached", "web-1")},
		[]reservation.Attachment{seen("both", ""), seen("mirrored", "")},
	)
	if diff := cmp.Diff([]reservation.Attachment{seen("mirrored", ""), seen("both", "web-0"), seen("cached", "web-1")}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
