package show

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// Retry says when something is tried again.
type Retry struct {
	Until    time.Time
	Err      error // nil when the failure is none that people need to know
	failures int   // in a row
}

// After notes a further failure.
func (r Retry) After(err error, least, most time.Duration, now time.Time, random float64) Retry {
	failures := r.failures + 1
	return Retry{now.Add(plan.Delay(failures, least, most, plan.Asked(err), random)), err, failures}
}

// Retries are what is tried again, by a key.
type Retries[K comparable] map[K]Retry

// Next returns when the first of those that wait since a pass is tried again; zero without one.
func (r Retries[K]) Next(pass time.Time) (due time.Time) {
	for _, one := range r {
		if one.Until.After(pass) {
			due = earliest(due, one.Until)
		}
	}
	return due
}

// Standing returns the error of the first key that has one, in the order of their texts: the same error is told once.
func (r Retries[K]) Standing() error {
	for _, key := range slices.SortedFunc(maps.Keys(r), func(a, b K) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		if err := r[key].Err; err != nil {
			return err
		}
	}
	return nil
}
