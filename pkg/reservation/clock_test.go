package reservation_test

import (
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestDeadlineLeft(t *testing.T) {
	const length = 10 * time.Minute
	for name, tc := range map[string]struct {
		wall, up time.Duration
		boot     string
		unsure   bool
		want     time.Duration
	}{
		"at once all of it":                                 {want: length},
		"within a boot up time counts":                      {wall: 4 * time.Minute, up: 4 * time.Minute, want: 6 * time.Minute},
		"a wall clock that steps ahead changes nothing":     {wall: 24 * time.Hour, up: time.Minute, want: 9 * time.Minute},
		"a wall clock that steps back changes nothing":      {wall: -24 * time.Hour, up: time.Minute, want: 9 * time.Minute},
		"after the deadline nothing":                        {wall: time.Hour, up: time.Hour, want: 0},
		"across boots the wall clock counts":                {wall: 4 * time.Minute, up: -time.Hour, boot: "next", want: 6 * time.Minute},
		"across boots up time means nothing":                {wall: 4 * time.Minute, up: time.Hour, boot: "next", want: 6 * time.Minute},
		"across boots a clock far back gives all, not more": {wall: -24 * time.Hour, boot: "next", want: length},
		"across boots a clock far ahead gives nothing":      {wall: 24 * time.Hour, boot: "next", want: 0},
		"a clock that nobody has set ends nothing":          {wall: 24 * time.Hour, up: 4*time.Minute - now.Up, boot: "next", unsure: true, want: 6 * time.Minute},
		"… nor does one that is far back keep everything":   {wall: -24 * time.Hour, up: 4*time.Minute - now.Up, boot: "next", unsure: true, want: 6 * time.Minute},
		"within a boot it does not count":                   {wall: 24 * time.Hour, up: 4 * time.Minute, unsure: true, want: 6 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			d := reservation.Deadline{From: now, For: length}
			then := reservation.Moment{Wall: now.Wall.Add(tc.wall), BootID: now.BootID + tc.boot, Up: now.Up + tc.up, Unsure: tc.unsure}
			if got := d.Left(then); got != tc.want {
				t.Errorf("left %s, want %s", got, tc.want)
			}
			if got := d.Passed(then); got != (tc.want == 0) {
				t.Errorf("passed = %t with %s left", got, tc.want)
			}
		})
	}
}

func TestSinceIsNeverNegative(t *testing.T) {
	later := reservation.Moment{Wall: now.Wall.Add(time.Hour), BootID: "other"}
	if got := now.Since(later); got != 0 {
		t.Errorf("since = %s, want 0", got)
	}
}

// TestAnEndThatNeverComesDoesNotMove has a date for people that stays, whatever the clocks do: it is written to the API.
func TestAnEndThatNeverComesDoesNotMove(t *testing.T) {
	from := reservation.Moment{Wall: time.Unix(1_000_000, 0), BootID: "a", Up: time.Hour}
	never := reservation.Deadline{From: from, For: reservation.Forever}
	soon := reservation.Deadline{From: from, For: time.Hour}
	later := reservation.Moment{Wall: from.Wall.Add(time.Minute), BootID: "a", Up: time.Hour + 2*time.Minute}
	if got := never.Until(later); !got.Equal(never.Until(from)) || never.Passed(later) {
		t.Errorf("until %s, and later until %s", never.Until(from), got)
	}
	if got := soon.Until(later); !got.Equal(from.Wall.Add(59 * time.Minute)) {
		t.Errorf("until %s after two minutes, of which the wall clock shows one", got)
	}
}
