package spread

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Bounds of a status, which users can make large: with many revisions of many subsets.
const (
	mostVersions = 64
	mostRows     = 1024 // of all revisions together
)

// StatusInput is what the status of a spread is computed from.
type StatusInput struct {
	Spread Spread
	// Revisions of the workload by their names. A workload without revisions has one, with the name
	// appsv1beta1.VersionIgnored.
	Revisions map[string]Revision
}

// Revision are the pods of one revision.
type Revision struct {
	// Pods counts the active pods by subset.
	Pods map[string]int32
	// Entries are creations on their way, whose pods are not seen yet.
	Entries []Entry
}

// Status returns the numbers of each subset, over all revisions and for each of them. Conditions
// are not set. A revision without pods is left out, and of too many those with the fewest pods.
func Status(in StatusInput) (all []appsv1beta1.WorkloadSpreadSubsetStatus, versions map[string]appsv1beta1.VersionedSubsets) {
	total := Revision{Pods: map[string]int32{}}
	sizes := map[string]int64{}
	for name, r := range in.Revisions {
		for subset, n := range r.Pods {
			total.Pods[subset] += n
			sizes[name] += int64(n)
		}
		total.Entries = append(total.Entries, r.Entries...)
		if sizes[name] += int64(len(r.Entries)); sizes[name] == 0 {
			delete(sizes, name)
		}
	}
	names := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int { return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b)) })
	for _, name := range names[:min(len(names), mostVersions, mostRows/max(len(in.Spread.Subsets), 1))] {
		if versions == nil {
			versions = map[string]appsv1beta1.VersionedSubsets{}
		}
		versions[name] = in.Revisions[name].status(in.Spread)
	}
	return total.status(in.Spread), versions
}

func (r Revision) status(s Spread) []appsv1beta1.WorkloadSpreadSubsetStatus {
	var all []appsv1beta1.WorkloadSpreadSubsetStatus
	for _, subset := range s.Subsets {
		o := appsv1beta1.WorkloadSpreadSubsetStatus{Name: subset.Name, Replicas: r.Pods[subset.Name], MissingReplicas: appsv1beta1.MissingUnlimited}
		for _, e := range r.Entries {
			if e.Subset != subset.Name {
				continue
			}
			if o.CreatingPods == nil {
				o.CreatingPods = map[string]metav1.Time{}
			}
			o.CreatingPods[e.Key] = metav1.NewTime(e.Since)
		}
		if subset.Max != nil {
			o.MissingReplicas = max(*subset.Max-o.Replicas-int32(len(o.CreatingPods)), 0)
		}
		all = append(all, o)
	}
	return all
}
