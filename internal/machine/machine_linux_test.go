package machine_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/machine"
)

// TestTheWallClockIsUnsureAfterABoot asks the kernel about its clock early and late after a boot.
func TestTheWallClockIsUnsureAfterABoot(t *testing.T) {
	early, late := time.Minute, 10*time.Minute
	for name, tc := range map[string]struct {
		up     time.Duration
		status int32
		err    error
		want   bool
	}{
		"early, and not synchronized":       {early, unix.STA_UNSYNC | unix.STA_PLL, nil, true},
		"early, and synchronized":           {early, unix.STA_PLL, nil, false},
		"early, and the kernel refuses":     {early, 0, unix.EPERM, true},
		"late, though never synchronized":   {late, unix.STA_UNSYNC, nil, false},
		"just before, and not synchronized": {late - 1, unix.STA_UNSYNC, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := machine.Unsure(tc.up, func(t *unix.Timex) (int, error) {
				if t.Modes != 0 {
					return 0, unix.EINVAL // it would set the clock
				}
				t.Status = tc.status
				return 0, tc.err
			})
			if got != tc.want {
				t.Errorf("%t, want %t", got, tc.want)
			}
		})
	}
}
