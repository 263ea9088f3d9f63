package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

func TestDesiredOf(t *testing.T) {
	cases := map[string]struct {
		spec map[string]any
		want workload.Desired
	}{
		"says nothing":       {nil, workload.Desired{Replicas: 1}},
		"replicas":           {map[string]any{"replicas": int64(3)}, workload.Desired{Replicas: 3}},
		"a start":            {map[string]any{"ordinals": map[string]any{"start": int64(5)}}, workload.Desired{Replicas: 1, Start: 5}},
		"replicas as a word": {map[string]any{"replicas": "many"}, workload.Desired{Replicas: 1}},
		"reserved as numbers, words and ranges, in any order": {
			map[string]any{"reserveOrdinals": []any{int64(7), "2-4", int64(3), "9", "4-5"}},
			workload.Desired{Replicas: 1, Reserved: []workload.Span{{2, 5}, {7, 7}, {9, 9}}},
		},
		"a range as wide as there are ordinals": {
			map[string]any{"reserveOrdinals": []any{"1-2147483647"}},
			workload.Desired{Replicas: 1, Reserved: []workload.Span{{1, 1<<31 - 1}}},
		},
		"reserved that make no sense": {
			map[string]any{"reserveOrdinals": []any{"", "-", "5-3", "x", true, "1-2-3"}},
			workload.Desired{Replicas: 1},
		},
		"reserved that is no list": {map[string]any{"reserveOrdinals": "1"}, workload.Desired{Replicas: 1}},
	}
	sets := schema.GroupKind{Group: "apps.kruise.io", Kind: "StatefulSet"}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := workload.DesiredOf(map[string]any{"spec": tc.spec}, sets)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("workload (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDesiredOfAKindThatChoosesNames(t *testing.T) {
	cases := map[string]struct {
		spec map[string]any
		want workload.Desired
	}{
		"says nothing, so every name may be wanted": {nil, workload.Desired{AnyName: true, Replicas: 1<<31 - 1}},
		"replicas and fields that may mean anything": {
			map[string]any{"replicas": int64(3), "ordinals": map[string]any{"start": int64(5)}, "reserveOrdinals": []any{int64(1)}},
			workload.Desired{AnyName: true, Replicas: 3},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := workload.DesiredOf(map[string]any{"spec": tc.spec}, gameServers.GroupKind())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("workload (-want +got):\n%s", diff)
			}
		})
	}
}
