package console

import (
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/console/facts"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// all reports whether a query without names means a reservation. Pods whose labels are not known match no selector, not
// even one that excludes labels.
func (q ReleaseQuery) all(f *facts.Facts, o *limpetv1alpha1.IPReservation) bool {
	if q.Selector == nil {
		return q.All
	}
	known := podLabels(f, o.Namespace, o.Status.Pod)
	return known != nil && q.Selector.Matches(known)
}

// podLabels returns the labels of a pod. For a pod that is away, these are the labels that its StatefulSet would give
// it; nil if there is none of that name.
func podLabels(f *facts.Facts, namespace, name string) labels.Set {
	if pod := f.Pod(namespace, name); pod != nil {
		return labels.Merge(pod.Labels, nil)
	}
	dash := strings.LastIndexByte(name, '-')
	if ordinal, err := strconv.ParseUint(name[dash+1:], 10, 31); dash < 1 || err != nil || name[dash+1:] != strconv.FormatUint(ordinal, 10) {
		return nil
	}
	for i := range f.StatefulSets {
		if set := &f.StatefulSets[i]; set.Namespace == namespace && set.Name == name[:dash] {
			given := labels.Set{appsv1.StatefulSetPodNameLabel: name, appsv1.PodIndexLabel: name[dash+1:]}
			maps.Copy(given, set.Spec.Template.Labels)
			return given
		}
	}
	return nil
}
