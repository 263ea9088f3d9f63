package spread_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/spread"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

func TestStatus(t *testing.T) {
	entry := func(key, subset string) spread.Entry { return spread.Entry{Key: key, Subset: subset, Since: start} }
	type row = appsv1beta1.WorkloadSpreadSubsetStatus
	creating := func(keys ...string) map[string]metav1.Time {
		m := map[string]metav1.Time{}
		for _, key := range keys {
			m[key] = metav1.NewTime(start)
		}
		return m
	}
	in := spread.StatusInput{
		Spread: of(inZone("a", 3), inZone("b", 2), inZone("c", -1)),
		Revisions: map[string]spread.Revision{
			"new": {Pods: map[string]int32{"a": 1, "x": 7}, Entries: []spread.Entry{entry("u1", "a"), entry("u2", "c")}},
			"old": {Pods: map[string]int32{"a": 1, "b": 5}},
			"run": {Pods: map[string]int32{"a": 0}},
			"out": {},
		},
	}
	all, versions := spread.Status(in)
	if diff := cmp.Diff([]row{
		{Name: "a", Replicas: 2, MissingReplicas: 0, CreatingPods: creating("u1")},
		{Name: "b", Replicas: 5, MissingReplicas: 0},
		{Name: "c", Replicas: 0, MissingReplicas: -1, CreatingPods: creating("u2")},
	}, all); diff != "" {
		t.Errorf("all revisions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]appsv1beta1.VersionedSubsets{
		"new": {
			{Name: "a", Replicas: 1, MissingReplicas: 1, CreatingPods: creating("u1")},
			{Name: "b", MissingReplicas: 2},
			{Name: "c", MissingReplicas: -1, CreatingPods: creating("u2")},
		},
		"old": {{Name: "a", Replicas: 1, MissingReplicas: 2}, {Name: "b", Replicas: 5}, {Name: "c", MissingReplicas: -1}},
	}, versions); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

// A tenant may make any number of revisions.
func TestStatusHasABoundedNumberOfRevisions(t *testing.T) {
	in := spread.StatusInput{Spread: of(inZone("a", 1)), Revisions: map[string]spread.Revision{}}
	for i := range 100 {
		in.Revisions[fmt.Sprintf("%03d", i)] = spread.Revision{Pods: map[string]int32{"a": int32(1 + i/50)}}
	}
	_, versions := spread.Status(in)
	_, fuller := versions["099"]
	_, first := versions["000"]
	_, last := versions["049"]
	if len(versions) != 64 || !fuller || !first || last {
		t.Errorf("%d revisions; 099 %v, 000 %v, 049 %v", len(versions), fuller, first, last)
	}
	for i := range 64 {
		in.Spread.Subsets = append(in.Spread.Subsets, inZone(fmt.Sprint(i), 1))
	}
	if _, versions = spread.Status(in); len(versions) != 1024/65 {
		t.Errorf("%d revisions of 65 subsets", len(versions))
	}
}
