package build

import (
	"fmt"
	"time"
)

// pace is how long builds take on this machine in relation to the measured durations in
// components: 1 until the first component is built.
type pace struct {
	expected, spent time.Duration
}

// built adds a component that took so long.
func (p *pace) built(c component, took time.Duration) {
	p.expected += c.usual
	p.spent += took
}

// scale converts a measured duration to this machine.
func (p *pace) scale(d time.Duration) time.Duration {
	if p.expected == 0 {
		return d
	}
	return time.Duration(float64(d) * float64(p.spent) / float64(p.expected))
}

// left estimates how long the first component of todo takes from now on, and all of
// todo. A component that takes longer than usual is expected to end at once.
func (p *pace) left(todo []component, elapsed time.Duration) (current, all time.Duration) {
	for i, c := range todo {
		d := p.scale(c.usual)
		if i == 0 {
			d = max(0, d-elapsed)
			current = d
		}
		all += d
	}
	return current, all
}

// about formats an estimate: seconds below two minutes, otherwise minutes.
func about(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("about %d s", int(d.Round(5*time.Second).Seconds()))
	}
	return fmt.Sprintf("about %d min", int(d.Round(time.Minute).Minutes()))
}
