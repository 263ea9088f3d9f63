package reconcile_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// cached is what the cache keeps of an object.
func cached[T client.Object](t *testing.T, o T) T {
	t.Helper()
	for kind, by := range cluster.CacheOptions(controller.Needs()).ByObject {
		if _, same := kind.(T); !same {
			continue
		}
		kept, err := by.Transform(o)
		if err != nil {
			t.Fatal(err)
		}
		return kept.(T)
	}
	t.Fatalf("nothing is said of %T", o)
	return o
}

// Whether a pod asks for the nodes of its place is decided while it waits, and only then.
func TestCacheKeepsWhatAWaitingPodAsksFor(t *testing.T) {
	asking := func(node string) testenv.Pod {
		pod := testenv.APod("web-0").With(podpatch.AnnotationPlace, "k=v").On(node)
		pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		return pod
	}
	waiting := asking("")
	got := cached(t, waiting.Pod).Spec
	want := corev1.PodSpec{NodeSelector: waiting.Spec.NodeSelector, Affinity: waiting.Spec.Affinity}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of a pod that waits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(corev1.PodSpec{NodeName: "n1"}, cached(t, asking("n1").Pod).Spec); diff != "" {
		t.Errorf("of a pod that has a node (-want +got):\n%s", diff)
	}
}

// A nomination never exceeds the room of its node. The cache keeps one sum for each pod, and
// one list for all pods that ask for the same.
func TestCacheKeepsWhatPodsAskOfTheirNode(t *testing.T) {
	pod := testenv.APod("web-0").Asking(2).On("n1")
	pod.Spec.Containers = append(pod.Spec.Containers, pod.Spec.Containers[0])
	pod.Spec.InitContainers = testenv.APod("").Asking(3).Spec.Containers
	pod.Spec.Overhead = corev1.ResourceList{"example.com/device": resource.MustParse("1")}
	for kind, by := range cluster.CacheOptions(controller.Needs()).ByObject {
		if _, same := kind.(*corev1.Pod); !same {
			continue
		}
		var kept [2]*corev1.Pod
		for i := range kept {
			o, err := by.Transform(pod.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			kept[i] = o.(*corev1.Pod)
		}
		if diff := cmp.Diff(fit.Requests(pod.Pod), fit.Requests(kept[0])); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if reflect.ValueOf(kept[0].Spec.Overhead).Pointer() != reflect.ValueOf(kept[1].Spec.Overhead).Pointer() {
			t.Error("each pod has a list of its own")
		}
	}
	if got := cached(t, testenv.APod("idle").On("n1").Pod).Spec.Overhead; got != nil {
		t.Errorf("requests of a pod that asks for nothing: %v", got)
	}
}

// Users may write 256 KiB of annotations onto each object, and have many objects.
func TestCacheKeepsLittleOfLongAnnotations(t *testing.T) {
	const most = 20 << 10
	long := map[string]string{"example.com/note": strings.Repeat("x", 200<<10), reservation.RetainAnnotation: "10"}
	set, owner := testenv.AStatefulSet("web", 0).StatefulSet, testenv.AStatefulSet("db", 1)
	set.Annotations, set.Spec.Template.Annotations = long, long
	owned, bare := testenv.APod("db-0").OwnedBy(owner.StatefulSet).Pod, testenv.APod("bare").Pod
	owned.Annotations, bare.Annotations = maps.Clone(long), maps.Clone(long)
	owned.Annotations["example.com/ip"], bare.Annotations["example.com/ip"] = "10.0.0.1", "10.0.0.1"
	for _, o := range []client.Object{cached(t, set), cached(t, owned), cached(t, bare)} {
		text, err := json.Marshal(o)
		if err != nil || len(text) > most {
			t.Errorf("%T %s takes %d bytes, want at most %d; error %v", o, o.GetName(), len(text), most, err)
		}
		if o.GetAnnotations()[reservation.RetainAnnotation] != "10" {
			t.Errorf("%T %s asks for nothing: %v", o, o.GetName(), o.GetAnnotations())
		}
	}
	if got := cached(t, set).Spec.Template.Annotations; got[reservation.RetainAnnotation] != "10" {
		t.Errorf("the template asks for nothing: %v", got)
	}
	if cached(t, owned).Annotations["example.com/ip"] == "" {
		t.Error("a short annotation of a pod that is recorded is not kept")
	}
	if cached(t, bare).Annotations["example.com/ip"] != "" {
		t.Error("an annotation of a pod that is never recorded is kept")
	}
}

// Users may write 1 MiB of tolerations and gates onto each pod.
func TestCacheKeepsLittleOfManyTolerationsAndGates(t *testing.T) {
	pod := testenv.APod("web-0").Gated("example.com/first")
	for i := range 5000 {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("example.com/%060d", i)})
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: fmt.Sprintf("example.com/%060d", i)})
	}
	pod.Gated(pin.Gate, "limpet.dev/scale-out")
	got := cached(t, pod.Pod)
	if n := len(got.Spec.Tolerations); n != 64 || cap(got.Spec.Tolerations) > 128 {
		t.Errorf("the cache keeps %d tolerations, with room for %d", n, cap(got.Spec.Tolerations))
	}
	if n := len(got.Spec.SchedulingGates); n > 16 || cap(got.Spec.SchedulingGates) > 32 || !pin.Gated(got) || got.Spec.SchedulingGates[n-1].Name != "limpet.dev/scale-out" {
		t.Errorf("the cache keeps %d gates, with room for %d, those of Limpet among them: %v", n, cap(got.Spec.SchedulingGates), pin.Gated(got))
	}
}

// A stolen token of an agent may write pools with any ranges.
func TestCacheKeepsNoLongRangesOfAPool(t *testing.T) {
	pool := &limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{Node: "n1", Total: 253, Free: 7}}
	for range 16 {
		pool.Status.Ranges = append(pool.Status.Ranges, strings.Repeat("10.0.0.1-10.0.0.9,", 56))
	}
	if got := cached(t, pool).Status; got.Ranges != nil || got.Free != 7 {
		t.Errorf("the cache keeps %d range sets, and %d free addresses; want none and 7", len(got.Ranges), got.Free)
	}
}

// By its ranges the webhook knows of which pools a pod's addresses are, and by its time the recorder why they are lost.
func TestCacheKeepsTheRangesOfAPool(t *testing.T) {
	pool := &limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{
		Node: "n1", Ranges: []string{"10.0.1.2-10.0.1.254"}, Total: 253, Free: 7, StateSince: &metav1.Time{Time: time.Unix(1, 0)},
	}}
	if diff := cmp.Diff(pool, cached(t, pool)); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
}
