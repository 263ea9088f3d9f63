package cluster_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/cluster"
)

// Annotations that Limpet reads are kept before others, short ones before long ones, and
// never more than 16 KiB.
func TestAnnotations(t *testing.T) {
	const retain = "io.kubernetes.cri/reserved-ip-duration"
	long := strings.Repeat("x", 200<<10)
	ours := map[string]string{"limpet.dev/pinned-node": "n1", "kruise.io/injected-persistent-pod-state": "web", retain: "10"}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(ours)
		maps.Copy(all, more)
		return all
	}
	for name, tc := range map[string]struct {
		all       map[string]string
		own, kept []string // keys beside ours
	}{
		"none of others":            {ours, nil, nil},
		"a short one":               {with(map[string]string{"example.com/ip": "10.0.0.1"}), nil, []string{"example.com/ip"}},
		"… beside a long one":       {with(map[string]string{"example.com/ip": "10.0.0.1", "a": long}), nil, []string{"example.com/ip"}},
		"as long as is kept":        {with(map[string]string{"a": long[:15<<10]}), nil, []string{"a"}},
		"two, of which one fits":    {with(map[string]string{"a": long[:9<<10], "b": long[:8<<10]}), nil, []string{"b"}},
		"a long one in our name":    {with(map[string]string{"limpet.dev/x": long, "a": "b"}), nil, []string{"a"}},
		"ours leave no room for it": {with(map[string]string{"kruise.io/x": long[:10<<10], "a": long[:7<<10]}), []string{"kruise.io/x"}, []string{"kruise.io/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			from, all, own := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tc.all}}, &corev1.Pod{}, &corev1.Pod{}
			cluster.Annotations(from, all)
			cluster.OwnAnnotations(from, own)
			for got, want := range map[*corev1.Pod][]string{all: tc.kept, own: tc.own} {
				want = slices.Sorted(slices.Values(slices.Concat(want, slices.Collect(maps.Keys(ours)))))
				if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got.Annotations))); diff != "" {
					t.Errorf("kept keys (-want +got):\n%s", diff)
				}
				for key, value := range got.Annotations {
					if value != tc.all[key] {
						t.Errorf("%s has another value", key)
					}
				}
			}
		})
	}
	if got := cluster.OwnOf(map[string]string{"a": "b"}); got != nil {
		t.Errorf("kept %v", got)
	}
	if got := cluster.OwnOf(map[string]string{retain: long}); len(got[retain]) == 0 || len(got[retain]) > 100 {
		t.Errorf("of a long duration %d bytes are kept, want that it is still asked for", len(got[retain]))
	}
}

// Workloads of further kinds are held by their metadata, and users write that too.
func TestTheCacheKeepsLittleOfMetadata(t *testing.T) {
	o := &metav1.PartialObjectMetadata{}
	o.Name, o.Annotations = "game", map[string]string{"kruise.io/x": "true", "a": strings.Repeat("x", 200<<10)}
	o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "game", Annotations: map[string]string{"kruise.io/x": "true"}}}
	got, err := cluster.CacheOptions().DefaultTransform(o)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

// A feature that needs fewer annotations than another one takes none from it, in whatever order
// the two come.
func TestTheAnnotationsOfAllFeaturesAreKept(t *testing.T) {
	const named, long = "example.com/named", "example.com/long"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"limpet.dev/x": "1", "example.com/ip": "10.0.0.1", named: "2", long: strings.Repeat("x", 65),
	}}}
	own, some := cluster.OwnAnnotations[*corev1.Pod], cluster.NamedAnnotations[*corev1.Pod](64, named, long, "example.com/none")
	for name, tc := range map[string]struct {
		parts []cluster.Part[*corev1.Pod]
		want  []string
	}{
		"some of others": {[]cluster.Part[*corev1.Pod]{some}, []string{named}},
		"own and some":   {[]cluster.Part[*corev1.Pod]{own, some}, []string{named, "limpet.dev/x"}},
		"some and own":   {[]cluster.Part[*corev1.Pod]{some, own}, []string{named, "limpet.dev/x"}},
		"all, and fewer": {[]cluster.Part[*corev1.Pod]{cluster.Annotations[*corev1.Pod], own, some}, []string{"example.com/ip", long, named, "limpet.dev/x"}},
		"fewer, and all": {[]cluster.Part[*corev1.Pod]{some, own, cluster.Annotations[*corev1.Pod]}, []string{"example.com/ip", long, named, "limpet.dev/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			kept := &corev1.Pod{}
			for _, part := range tc.parts {
				part(pod, kept)
			}
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(kept.Annotations))); diff != "" {
				t.Errorf("kept keys (-want +got):\n%s", diff)
			}
		})
	}
}
