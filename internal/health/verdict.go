package health

import (
	"errors"
	"fmt"
	"time"
)

// Part is one part of a program that must make progress.
type Part struct {
	Name string
	// Progress is when the part last made progress; the start of the program before that.
	Progress time.Time
	// Limit is how long the part may go without progress.
	Limit time.Duration
	// Err is what the last attempt returned; nil where that is unknown.
	Err error
}

// Verdict returns an error that names every part without progress for longer than its limit,
// and nil if there is none.
func Verdict(now time.Time, parts ...Part) error {
	var errs []error
	for _, p := range parts {
		late := now.Sub(p.Progress)
		switch {
		case late <= p.Limit:
		case p.Err != nil:
			errs = append(errs, fmt.Errorf("%s: no progress for %s: %w", p.Name, late.Round(time.Second), p.Err))
		default:
			errs = append(errs, fmt.Errorf("%s: no progress for %s", p.Name, late.Round(time.Second)))
		}
	}
	return errors.Join(errs...)
}
