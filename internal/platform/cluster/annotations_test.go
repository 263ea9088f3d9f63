package cluster_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
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
	o.Labels, o.Finalizers = map[string]string{"app": "game"}, []string{"example.com/hold"}
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "u"}}
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

// Users may write 1 MiB onto each pod: labels, owners, and resources that it asks for.
func TestTheCacheKeepsLittleOfLongPods(t *testing.T) {
	needs := cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.SharedLabels[*corev1.Pod](), cluster.Owners, cluster.Requests())}}
	var keep func(any) (any, error)
	for _, by := range cluster.CacheOptions(needs).ByObject {
		keep = by.Transform
	}
	long := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: map[string]string{"app": "web"}}}
	asked := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	for i := range 8000 {
		name := fmt.Sprintf("example.com/%060d", i)
		long.Labels[name] = strings.Repeat("x", 60)
		asked[corev1.ResourceName(name)] = resource.MustParse("1")
		long.OwnerReferences = append(long.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: "u"})
	}
	long.OwnerReferences = append(long.OwnerReferences, metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "u", Controller: new(true),
	})
	long.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: asked}}}
	kept, err := keep(long)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(kept)
	if err != nil || len(text) > 16<<10 {
		t.Errorf("the cache keeps %d bytes of a pod, want at most 16 KiB; error %v", len(text), err)
	}
	pod := kept.(*corev1.Pod)
	if pod.Labels["app"] != "web" || metav1.GetControllerOf(pod).Name != "web" || pod.Spec.Overhead.Cpu().Value() != 2 {
		t.Errorf("labels %v, owners %v and requests %v, want the short label, the controller and the CPUs among them",
			pod.Labels, pod.OwnerReferences, pod.Spec.Overhead)
	}
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9"), corev1.ResourcePods: resource.MustParse("9")}
	for name := range asked {
		room[name] = resource.MustParse("9")
	}
	if lacks := fit.Shortage(&corev1.Node{Status: corev1.NodeStatus{Allocatable: room}}, pod, nil); lacks == "" {
		t.Error("a node has room for a pod of which not all requests are known")
	}
	long.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "A", Name: strings.Repeat("x", 1<<20), UID: "u", Controller: new(true)}}
	if kept, err = keep(long); err != nil || len(kept.(*corev1.Pod).OwnerReferences) > 0 {
		t.Errorf("a controller with a name of 1 MiB is kept; error %v", err)
	}
}
