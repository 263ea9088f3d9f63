package reservation

import "time"

// Moment is one reading of the node's clocks. The wall clock may step. Up (CLOCK_BOOTTIME) never steps, but can be
// compared within one boot only.
type Moment struct {
	Wall   time.Time
	BootID string
	Up     time.Duration
	// Unsure is true for some minutes after a boot, while nothing has set the wall clock right.
	Unsure bool
}

// Since returns the time from then to m, never less than 0. While m is unsure of the wall clock, the time since a moment
// before the boot is at least that since the boot, and nothing more is known.
func (m Moment) Since(then Moment) time.Duration {
	d := m.Wall.Sub(then.Wall)
	switch {
	case m.BootID == then.BootID:
		d = m.Up - then.Up
	case m.Unsure:
		d = m.Up
	}
	return max(d, 0)
}

// Deadline is a length of time counted from a moment. A date would move with a step of the wall clock.
type Deadline struct {
	From Moment
	For  time.Duration
}

// Left returns the time until the deadline, within [0, For]. Within one boot CLOCK_BOOTTIME counts, across boots the
// wall clock.
func (d Deadline) Left(now Moment) time.Duration {
	return min(max(d.For-now.Since(d.From), 0), d.For)
}

// Passed reports whether the deadline has passed.
func (d Deadline) Passed(now Moment) bool { return d.Left(now) == 0 }
