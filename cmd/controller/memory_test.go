package main

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// usual is the i-th pod of a large cluster: of a Deployment, or each fifth of a StatefulSet whose
// pods ask to keep their addresses.
func usual(i int) *corev1.Pod {
	const perOwner, perNamespace = 50, 1000
	uid := func(i int) types.UID { return types.UID(fmt.Sprintf("%08x-1111-4222-8333-%012x", i*40503, i)) }
	owner := fmt.Sprintf("app-%d", i/perOwner)
	kind, name := "ReplicaSet", fmt.Sprintf("%s-7d9f8c6b5d-%05x", owner, i)
	labels := map[string]string{"app": owner, appsv1.DefaultDeploymentUniqueLabelKey: "7d9f8c6b5d"}
	if i/perOwner%5 == 0 {
		kind, name = "StatefulSet", fmt.Sprintf("%s-%d", owner, i%perOwner)
		labels = map[string]string{
			"app": owner, appsv1.StatefulSetPodNameLabel: name, appsv1.PodIndexLabel: fmt.Sprint(i % perOwner),
			appsv1.ControllerRevisionHashLabelKey: owner + "-1",
		}
	}
	pod := testenv.APod(name).In(fmt.Sprintf("tenant-%d", i/perNamespace)).On(fmt.Sprintf("node-%d", i%5000)).
		At(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)).Ready().Pod
	if kind == "StatefulSet" {
		pod.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
	}
	pod.UID, pod.ResourceVersion, pod.CreationTimestamp, pod.Labels = uid(i), fmt.Sprint(1_000_000+i), metav1.Unix(1_800_000_000+int64(i), 0), labels
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner, UID: uid(i / perOwner), Controller: new(true)}}
	pod.Spec.Tolerations = []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
	}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
	}
	pod.Status.Conditions[0].LastTransitionTime = pod.CreationTimestamp
	return pod
}

// received is a pod as it comes from the API server: with no part of another one.
func received(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	text, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if err := got.Unmarshal(text); err != nil {
		t.Fatal(err)
	}
	return got
}

// podIndexes are the indexes of pods that features add, as the library adds them.
type podIndexes toolscache.Indexers

func (x podIndexes) IndexField(_ context.Context, o client.Object, field string, keys client.IndexerFunc) error {
	if _, ok := o.(*corev1.Pod); ok {
		x["field:"+field] = func(o any) (all []string, err error) {
			for _, key := range keys(o.(client.Object)) {
				all = append(all, o.(client.Object).GetNamespace()+"/"+key, "__all_namespaces/"+key)
			}
			return all, nil
		}
	}
	return nil
}

// podInformer is the informer of pods with all that features need, of events that a test sends.
func podInformer(t *testing.T, from watch.Interface) toolscache.SharedIndexInformer {
	t.Helper()
	var needs []cluster.Needs
	for _, f := range features(Default()) {
		needs = append(needs, f.needs...)
	}
	options, indexes := cluster.CacheOptions(needs...), podIndexes{}
	if err := cluster.AddIndexes(t.Context(), indexes, needs...); err != nil {
		t.Fatal(err)
	}
	lw := &toolscache.ListWatch{WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return from, nil }}
	informer := options.NewInformer(lw, &corev1.Pod{}, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	for kind, by := range options.ByObject {
		if _, ok := kind.(*corev1.Pod); !ok {
			continue
		}
		if err := informer.SetTransform(by.Transform); err != nil {
			t.Fatal(err)
		}
	}
	if err := informer.AddIndexers(toolscache.Indexers(indexes)); err != nil {
		t.Fatal(err)
	}
	return informer
}

// A pod takes little memory with its entries in all indexes, so that a controller for 150 000 of
// them has enough with 600 MB.
func TestAPodTakesLittleMemory(t *testing.T) {
	const first, more, most = 20_000, 30_000, 800 // bytes
	live := make(chan watch.Event)
	informer := podInformer(t, watch.NewProxyWatcher(live))
	go informer.RunWithContext(t.Context())
	add := func(from, n int) uint64 {
		for i := from; i < from+n; i++ {
			live <- watch.Event{Type: watch.Added, Object: received(t, usual(i))}
		}
		if from == 0 {
			end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "5", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
			live <- watch.Event{Type: watch.Bookmark, Object: end}
		}
		testenv.Eventually(t, func() error {
			if got := len(informer.GetStore().ListKeys()); got != from+n {
				return fmt.Errorf("%d pods are in the store, want %d", got, from+n)
			}
			return nil
		})
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := add(0, first)
	took := (add(first, more) - before) / more
	if took > most {
		t.Errorf("a pod takes %d bytes, want at most %d", took, most)
	}
	t.Logf("%d bytes", took)
	runtime.KeepAlive(informer)
}
