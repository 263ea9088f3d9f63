package pin_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/cluster"
	controller "github.com/limpet-io/limpet/internal/controller/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/fit"
	"github.com/limpet-io/limpet/pkg/pin"
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
		pod := testenv.APod("web-0").With(pin.AnnotationPlace, "k=v").On(node)
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

// By its ranges the webhook knows of which pools a pod's addresses are.
func TestCacheKeepsTheRangesOfAPool(t *testing.T) {
	pool := &limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{
		Node: "n1", Ranges: []string{"10.0.1.2-10.0.1.254"}, Total: 253, Free: 7,
	}}
	if diff := cmp.Diff(pool, cached(t, pool)); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
}
