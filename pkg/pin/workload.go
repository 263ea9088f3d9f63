package pin

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Workload is what counts of a target.
type Workload struct {
	// Names of the pods are the workload's own to choose: nothing is known of ordinals.
	Names bool
	// Replicas it wants.
	Replicas int32
	// Start is its first ordinal.
	Start int32
	// Reserved ordinals are skipped.
	Reserved []Span
}

// Span is a run of ordinals, both ends among them.
type Span struct{ First, Last int32 }

// WorkloadOf reads an object of a kind whose pods return. Of one that is like a
// StatefulSet it reads spec.replicas, spec.ordinals.start and spec.reserveOrdinals,
// whichever of them it has; of another, which may number its pods from 1 or not at all,
// the replicas alone.
func WorkloadOf(object map[string]any, kind schema.GroupKind) Workload {
	w := Workload{Replicas: 1}
	if !builtIn(Target{Group: kind.Group, Kind: kind.Kind}) {
		w = Workload{Names: true, Replicas: math.MaxInt32} // unless it says how many
	}
	if n, found, err := unstructured.NestedInt64(object, "spec", "replicas"); found && err == nil {
		w.Replicas = clamp(n)
	}
	if w.Names {
		return w
	}
	if n, found, err := unstructured.NestedInt64(object, "spec", "ordinals", "start"); found && err == nil {
		w.Start = clamp(n)
	}
	list, _, err := unstructured.NestedFieldNoCopy(object, "spec", "reserveOrdinals")
	if entries, ok := list.([]any); ok && err == nil {
		w.Reserved = reserved(entries)
	}
	return w
}

// reserved reads ordinals such as 3, "3" and "3-5", and joins those that overlap.
// Entries that are none of these reserve nothing.
func reserved(entries []any) []Span {
	var spans []Span
	for _, entry := range entries {
		switch e := entry.(type) {
		case int64:
			spans = append(spans, Span{clamp(e), clamp(e)})
		case string:
			first, last, isRange := strings.Cut(e, "-")
			if !isRange {
				last = first
			}
			a, errA := strconv.ParseInt(strings.TrimSpace(first), 10, 32)
			b, errB := strconv.ParseInt(strings.TrimSpace(last), 10, 32)
			if errA == nil && errB == nil && a <= b {
				spans = append(spans, Span{int32(a), int32(b)})
			}
		}
	}
	slices.SortFunc(spans, func(a, b Span) int { return int(int64(a.First) - int64(b.First)) })
	var out []Span
	for _, s := range spans {
		if last := len(out) - 1; last >= 0 && s.First <= out[last].Last {
			out[last].Last = max(out[last].Last, s.Last)
			continue
		}
		out = append(out, s)
	}
	return out
}

func clamp(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// holds tells whether a workload that has some living pods beside it wants one of this
// name. Of names that are its own to choose it wants each until it has all its pods
// without it. Else the ordinal decides; a name without one counts as held: nothing says
// that it is not.
func (w Workload) holds(pod string, living int) bool {
	if w.Names {
		return living < int(w.Replicas)
	}
	digits := pod[strings.LastIndexByte(pod, '-')+1:]
	ordinal, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return true
	}
	start := int64(w.Start)
	end := start + int64(w.Replicas)
	for _, r := range w.Reserved {
		first, last := max(int64(r.First), start), int64(r.Last)
		if first <= ordinal && ordinal <= last {
			return false
		}
		if last < ordinal && first <= last {
			end += last - first + 1 // skipped ordinals move the later ones up
		}
	}
	return ordinal >= start && ordinal < end
}
