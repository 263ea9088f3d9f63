package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// mostAnnotations is the length of the annotations that the cache keeps of one object, keys
// included. Users may write 256 KiB onto each object, and create any number of objects.
const mostAnnotations = 16 << 10

// ours are the prefixes of the annotations that Limpet reads. OpenKruise defined some of them.
var ours = []string{"limpet.dev/", "kruise.io/", "io.kubernetes.cri/"}

// Annotations keeps the annotations of an object, up to a length: those of Limpet first, then
// the shortest. So a long one crowds out no short one.
func Annotations[T client.Object](from, to T) {
	addAnnotations(to, shortest(from.GetAnnotations(), func(string) bool { return true }))
}

// OwnAnnotations keeps the annotations of Limpet, up to the same length.
func OwnAnnotations[T client.Object](from, to T) { addAnnotations(to, OwnOf(from.GetAnnotations())) }

// NamedAnnotations keeps annotations by their names, each up to a length. A longer value is as
// good as none.
func NamedAnnotations[T client.Object](length int, names ...string) Part[T] {
	return func(from, to T) {
		kept := map[string]string{}
		for _, name := range names {
			if value, ok := from.GetAnnotations()[name]; ok && len(value) <= length {
				kept[name] = value
			}
		}
		addAnnotations(to, kept)
	}
}

// addAnnotations adds what one feature needs to what other features need.
func addAnnotations(to client.Object, kept map[string]string) {
	all := to.GetAnnotations()
	switch {
	case len(kept) == 0:
	case all == nil:
		to.SetAnnotations(kept)
	default:
		maps.Copy(all, kept)
	}
}

// OwnOf returns what OwnAnnotations keeps, for templates.
func OwnOf(annotations map[string]string) map[string]string {
	return shortest(annotations, own)
}

func own(key string) bool {
	return slices.ContainsFunc(ours, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// shortest returns the wanted annotations that fit into the length.
func shortest(all map[string]string, wanted func(key string) bool) map[string]string {
	all = reservation.ShortRequest(all)
	var keys []string
	for key := range all {
		if wanted(key) {
			keys = append(keys, key)
		}
	}
	return fitting(all, keys, mostAnnotations)
}

// fitting returns what fits into a length of some keys of a map: those of Limpet first, then the
// shortest.
func fitting(all map[string]string, keys []string, left int) map[string]string {
	length := func(key string) int { return len(key) + len(all[key]) }
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), length(a)-length(b), strings.Compare(a, b))
	})
	kept := map[string]string{}
	for _, key := range keys {
		if length(key) <= left {
			kept[key] = all[key]
			left -= length(key)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// rank puts the annotations of Limpet first.
func rank(key string) int {
	if own(key) {
		return 0
	}
	return 1
}
