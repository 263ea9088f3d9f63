package cluster

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/randfill"
)

// ordinary is a pod of a StatefulSet as the API server sends it.
func ordinary(i int) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion = "shop", fmt.Sprintf("web-%d", i), uuid.NewUUID(), fmt.Sprint(100+i)
	pod.CreationTimestamp = metav1.Unix(1_800_000_000+int64(i), 0)
	pod.Labels = map[string]string{"app": "web", "statefulset.kubernetes.io/pod-name": pod.Name, "apps.kubernetes.io/pod-index": fmt.Sprint(i)}
	pod.Annotations = map[string]string{"example.com/ip": fmt.Sprint(i), "limpet.dev/long": strings.Repeat("x", 200)}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "u", Controller: new(true)}}
	pod.Spec.NodeName = fmt.Sprint("node-", i)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIPs = []corev1.PodIP{{IP: fmt.Sprintf("10.0.0.%d", i)}, {IP: fmt.Sprintf("fd00::%d", i)}}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, Reason: "x"},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1_800_000_100+int64(i), 0)},
	}
	return pod
}

// unpacked is what the readers of a cache see of a pod.
func unpacked(s *shapes, pod *corev1.Pod) *corev1.Pod {
	switch o := s.pack(pod).(type) {
	case *packedPod:
		return o.unpack()
	case *corev1.Pod:
		return o
	}
	return nil
}

// Users choose most fields of a pod. Whatever the pods are, readers see them as they were.
func TestPackedPodsLoseNothing(t *testing.T) {
	s := &shapes{}
	for name, change := range map[string]func(*corev1.Pod){
		"an ordinary pod":             func(*corev1.Pod) {},
		"no annotations":              func(p *corev1.Pod) { p.Annotations = nil },
		"an empty annotation":         func(p *corev1.Pod) { p.Annotations = map[string]string{"": "", "a": ""} },
		"an odd annotation":           func(p *corev1.Pod) { p.Annotations["\x00\xff"] = "\x00\x01, ü" },
		"no labels":                   func(p *corev1.Pod) { p.Labels = nil },
		"a name without a dash":       func(p *corev1.Pod) { p.Name = "web" },
		"a name with a dash at last":  func(p *corev1.Pod) { p.Name = "web-"; p.Labels["a"] = "" },
		"a label as a mark":           func(p *corev1.Pod) { p.Labels["a"] = labelOfName },
		"a label as the other mark":   func(p *corev1.Pod) { p.Labels["a"] = labelOfIndex },
		"a mark where no dash is":     func(p *corev1.Pod) { p.Name = "web"; p.Labels["a"] = labelOfIndex },
		"no UID":                      func(p *corev1.Pod) { p.UID = "" },
		"a UID in capitals":           func(p *corev1.Pod) { p.UID = types.UID(strings.ToUpper(string(p.UID))) },
		"a UID with a dash elsewhere": func(p *corev1.Pod) { p.UID = "0123456-89012-4567-8901-234567890123" },
		"a long UID":                  func(p *corev1.Pod) { p.UID += "0" },
		"no version":                  func(p *corev1.Pod) { p.ResourceVersion = "" },
		"a version with a zero":       func(p *corev1.Pod) { p.ResourceVersion = "007" },
		"a long version":              func(p *corev1.Pod) { p.ResourceVersion = "18446744073709551616" },
		"no creation":                 func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{} },
		"created in 1970":             func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(0, 0) },
		"parts of a second":           func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(5, 7) },
		"ready in 1970":               func(p *corev1.Pod) { p.Status.Conditions[1].LastTransitionTime = metav1.Unix(0, 0) },
		"ready at no time":            func(p *corev1.Pod) { p.Status.Conditions[1].LastTransitionTime = metav1.Time{} },
		"ready twice":                 func(p *corev1.Pod) { p.Status.Conditions[0].Type = corev1.PodReady },
		"no address":                  func(p *corev1.Pod) { p.Status.PodIPs = nil },
		"an empty address":            func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{}} },
		"an address with a comma":     func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "10.0.0.1,10.0.0.2" },
		"not bound":                   func(p *corev1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = "", "node-1" },
		"terminating":                 func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Unix(1_800_000_500, 0)) },
		"a kind":                      func(p *corev1.Pod) { p.Kind = "Pod" },
	} {
		t.Run(name, func(t *testing.T) {
			pod := ordinary(1)
			change(pod)
			want := pod.DeepCopy()
			if diff := cmp.Diff(want, unpacked(s, pod)); diff != "" {
				t.Errorf("-was +seen:\n%s", diff)
			}
			if diff := cmp.Diff(want, pod); diff != "" {
				t.Errorf("the pod itself was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// Random pods keep each field, too, also where they share a shape with others.
func TestRandomPackedPodsLoseNothing(t *testing.T) {
	s := &shapes{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		fill := randfill.NewWithSeed(int64(seed)).NilChance(0.5).NumElements(1, 2).MaxDepth(8).Funcs(
			func(o *metav1.Time, _ randfill.Continue) { *o = metav1.Unix(r.Int64N(1<<32), r.Int64N(2)) },
			func(o *metav1.FieldsV1, _ randfill.Continue) { o.SetRawString("{}") },
		)
		random := ordinary(2)
		fill.Fill(&random.Spec)
		fill.Fill(&random.Status)
		fill.Fill(&random.ObjectMeta)
		if r.IntN(2) == 0 {
			random.UID, random.ResourceVersion = uuid.NewUUID(), fmt.Sprint(r.Uint64())
		}
		for _, pod := range []*corev1.Pod{random, ordinary(int(seed % 3)), random.DeepCopy()} {
			want := pod.DeepCopy()
			if diff := cmp.Diff(want, unpacked(s, pod), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d (-was +seen):\n%s", seed, diff)
			}
		}
	}
}

// Pods of one template share a shape, which is freed with the last of them: a tenant may create
// any number of templates.
func TestShapesAreSharedAndFreed(t *testing.T) {
	s, kept := &shapes{}, []*packedPod{}
	for i := range 1000 {
		other := ordinary(i)
		other.OwnerReferences[0].Name = fmt.Sprint("set-", i)
		kept = append(kept, s.pack(ordinary(i)).(*packedPod))
		s.pack(other)
	}
	for _, p := range kept {
		if p.shape != kept[0].shape {
			t.Fatal("pods of one template have two shapes")
		}
	}
	deadline := time.Now().Add(time.Minute)
	for n := 0; n != 1; {
		if time.Now().After(deadline) {
			t.Fatalf("%d shapes are held, want that of the pods that are", n)
		}
		runtime.GC()
		s.mu.Lock()
		n = len(s.known)
		s.mu.Unlock()
	}
	runtime.KeepAlive(kept)
}

// The cache holds few pods as they are. A list of more pods than that does not drive them out.
func TestFewPodsAreHeldAsTheyAre(t *testing.T) {
	s, l := &shapes{}, &lately{}
	var all []any
	for i := range mostFull + 10 {
		all = append(all, s.pack(ordinary(i)))
		l.full(all[i])
	}
	held := func() (n int) {
		for _, o := range all {
			if o.(*packedPod).full.Load() != nil {
				n++
			}
		}
		return n
	}
	if n := held(); n != mostFull || all[0].(*packedPod).full.Load() != nil {
		t.Errorf("%d pods are held, want the last %d", n, mostFull)
	}
	for i, o := range l.all(all) {
		if want := fmt.Sprintf("web-%d", i); o.(*corev1.Pod).Name != want {
			t.Fatalf("pod %s in the place of %s", o.(*corev1.Pod).Name, want)
		}
	}
	if n := held(); n != mostFull || all[0].(*packedPod).full.Load() != nil {
		t.Errorf("%d pods are held after a list of all, want the same %d", n, mostFull)
	}
	if got := l.all(all[:3])[0]; got != l.all(all[:3])[0] {
		t.Error("a pod that was used lately is unpacked again")
	}
}
