package answers

import (
	"math"
	"slices"
	"time"
)

// Never is the silence of a target that no request reached any more.
const Never = time.Duration(math.MaxInt64)

// settled is how long a target must answer until its silence is over: longer than CoreDNS keeps an answer by default. A
// request that a loaded machine loses later is not counted.
const settled = 6 * time.Second

// Silence returns the time from a disturbance of a pod until the first answer after which the target answered all
// requests until it was settled and the pod's successor was ready. Only requests that began before the end count. The
// silence is 0 if all of them were answered.
func Silence(asked []Asked, disturbed, ready, end time.Time) time.Duration {
	asked = slices.DeleteFunc(slices.Clone(asked), func(a Asked) bool { return a.At.Before(disturbed) || !a.At.Before(end) })
	slices.SortFunc(asked, func(a, b Asked) int { return a.At.Compare(b.At) }) // they are noted in the order of their ends
	silence, since := time.Duration(0), disturbed
	for _, a := range asked {
		switch {
		case !a.Answered:
			silence = Never
		case silence == Never:
			silence, since = a.At.Sub(disturbed), a.At
		case silence > 0 && a.At.After(ready) && a.At.Sub(since) >= settled:
			return silence
		}
	}
	return silence
}

// Quantile returns the silence that the given percentage of a sample did not exceed, and 0 of an empty sample.
func Quantile(sample []time.Duration, percent int) time.Duration {
	if len(sample) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(sample))
	return sorted[(len(sorted)*percent+99)/100-1]
}
