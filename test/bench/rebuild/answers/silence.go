package answers

import (
	"math"
	"slices"
	"time"
)

// Never is the silence of a target that no request reached any more.
const Never = time.Duration(math.MaxInt64)

// Silence returns the time from a disturbance until the first request that was answered after the last one that was not.
// Only requests that began before the end count. The silence is 0 if all of them were answered.
func Silence(asked []Asked, disturbed, end time.Time) time.Duration {
	asked = slices.DeleteFunc(slices.Clone(asked), func(a Asked) bool { return a.At.Before(disturbed) || !a.At.Before(end) })
	slices.SortFunc(asked, func(a, b Asked) int { return a.At.Compare(b.At) }) // they are noted in the order of their ends
	for i, a := range slices.Backward(asked) {
		if a.Answered {
			continue
		}
		if i == len(asked)-1 {
			return Never
		}
		return asked[i+1].At.Sub(disturbed)
	}
	return 0
}

// Quantile returns the silence that the given percentage of a sample did not exceed, and 0 of an empty sample.
func Quantile(sample []time.Duration, percent int) time.Duration {
	if len(sample) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(sample))
	return sorted[(len(sorted)*percent+99)/100-1]
}
