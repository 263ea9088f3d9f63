package workload

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Desired is how many pods a workload wants, and which names they have.
type Desired struct {
	// AnyName tells that the workload chooses the names of its pods freely: they have no
	// ordinals that Limpet could compute.
	AnyName bool
	// Replicas is the number of pods.
	Replicas int32
	// Start is the first ordinal.
	Start int32
	// Reserved ordinals are skipped.
	Reserved []Span
	// Created is when the workload was created; zero if that is unknown.
	Created time.Time
}

// Span is a range of ordinals, including both ends.
type Span struct{ First, Last int32 }

// DesiredOf reads the object of a workload. A StatefulSet is read for spec.replicas,
// spec.ordinals.start and spec.reserveOrdinals, as far as it has them. Any other kind is
// read for spec.replicas alone: it may count its pods from 1, or not at all.
func DesiredOf(object map[string]any, kind schema.GroupKind) Desired {
	w := Desired{Replicas: 1}
	if !StatefulSet(kind) {
		w = Desired{AnyName: true, Replicas: math.MaxInt32} // unless the object says how many
	}
	if n, found, err := unstructured.NestedInt64(object, "spec", "replicas"); found && err == nil {
		w.Replicas = clamp(n)
	}
	if w.AnyName {
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

// reserved reads ordinals such as 3, "3" and "3-5", and joins overlapping ranges. Any
// other entry reserves nothing.
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

// Contains reports whether the workload wants a pod of this name while it has so many other
// living pods. A workload that chooses names freely wants every name until it has all its
// pods. For any other workload the ordinal decides; a name without an ordinal is wanted.
func (w Desired) Contains(pod string, living int) bool {
	if w.AnyName {
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

// ContainsAny reports whether a workload that has these pods wants one of some missing pods.
func (w Desired) ContainsAny(missing []string, pods []corev1.Pod) bool {
	living := 0
	for i := range pods {
		if Alive(&pods[i]) {
			living++
		}
	}
	return slices.ContainsFunc(missing, func(name string) bool { return w.Contains(name, living) })
}
