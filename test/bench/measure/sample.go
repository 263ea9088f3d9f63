// Package measure holds what every benchmark of this repository needs: samples of
// durations with their quantiles, and a description of the machine.
package measure

import (
	"fmt"
	"slices"
	"time"
)

// Sample is how long each of several runs took.
type Sample []time.Duration

// Quantile returns the time that the share q of the runs did not exceed.
func (s Sample) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Median is the quantile of one half.
func (s Sample) Median() time.Duration { return s.Quantile(0.5) }

// P99 returns the slowest where there are too few runs for a percentile.
func (s Sample) P99() time.Duration { return s.Quantile(0.99) }

// Worst returns the slowest.
func (s Sample) Worst() time.Duration { return s.Quantile(1) }

// String returns median and 99th percentile, as the tables show them.
func (s Sample) String() string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s / %s", Millis(s.Median()), Millis(s.P99()))
}

// Millis prints two or three digits that count.
func Millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// Ratio returns how much of b a is, by the medians.
func Ratio(a, b Sample) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	return float64(a.Median()) / float64(b.Median())
}

// Megabytes prints bytes.
func Megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
