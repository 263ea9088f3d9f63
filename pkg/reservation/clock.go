package reservation

import "time"

// Moment is one reading of the node's clocks. The wall clock may step; Up
// (CLOCK_BOOTTIME) never does, but means nothing in another boot.
type Moment struct {
	Wall   time.Time
	BootID string
	Up     time.Duration
}

// Since returns how much time has passed from then to m, never less than 0.
func (m Moment) Since(then Moment) time.Duration {
	d := m.Wall.Sub(then.Wall)
	if m.BootID == then.BootID {
		d = m.Up - then.Up
	}
	return max(d, 0)
}

// Deadline is a length of time counted from a moment. It is kept as both rather
// than as a date, so that a step of the wall clock cannot move it.
type Deadline struct {
	From Moment
	For  time.Duration
}

// Left returns how long the deadline is away, within [0, For]. Within one boot
// it counts by CLOCK_BOOTTIME, across boots by the wall clock.
func (d Deadline) Left(now Moment) time.Duration {
	return min(max(d.For-now.Since(d.From), 0), d.For)
}

// Passed reports whether the deadline has come.
func (d Deadline) Passed(now Moment) bool { return d.Left(now) == 0 }
