package main

import (
	"fmt"
	"slices"
	"time"
)

// sample is how long each of several runs took.
type sample []time.Duration

func (s sample) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func (s sample) median() time.Duration { return s.quantile(0.5) }

// p99 returns the slowest where there are too few runs for a percentile.
func (s sample) p99() time.Duration { return s.quantile(0.99) }

func (s sample) worst() time.Duration { return s.quantile(1) }

// String returns median and p99, as the tables show them.
func (s sample) String() string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s / %s", millis(s.median()), millis(s.p99()))
}

// millis prints two or three digits that count.
func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// ratio returns how much of b a is, by the medians.
func ratio(a, b sample) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	return float64(a.median()) / float64(b.median())
}
