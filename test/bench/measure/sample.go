// Package measure is shared by the benchmarks: samples of durations with their quantiles,
// target values, a description of the machine, processes, and the audit log of an API server.
package measure

import (
	"fmt"
	"slices"
	"time"
)

// Sample holds the durations of several runs.
type Sample []time.Duration

// Quantile returns the duration that the fraction q of the runs did not exceed.
func (s Sample) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Median returns the median.
func (s Sample) Median() time.Duration { return s.Quantile(0.5) }

// P99 returns the 99th percentile, and the slowest run of less than a hundred.
func (s Sample) P99() time.Duration { return s.Quantile(0.99) }

// Worst returns the slowest run.
func (s Sample) Worst() time.Duration { return s.Quantile(1) }

// String prints median and 99th percentile in milliseconds.
func (s Sample) String() string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s / %s", Millis(s.Median()), Millis(s.P99()))
}

// Millis prints milliseconds with two or three significant digits.
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

// Ratio returns the median of a divided by the median of b; 0 without runs.
func Ratio(a, b Sample) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	return float64(a.Median()) / float64(b.Median())
}

// Megabytes prints a number of bytes in megabytes.
func Megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
