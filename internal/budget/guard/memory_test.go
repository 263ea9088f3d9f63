package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/testenv"
)

// A tenant has many pods that run nowhere, and as many budgets of each as are judged together. Its
// requests must not take the memory of the controller.
func TestManyDecisionsAtOnceFitTheMemory(t *testing.T) {
	const pods, budgets, requests, bound = 1500, 32, 72, 96 << 20
	serve(t)
	ns := env.Namespace(t)
	for i := range budgets {
		put(t, aBudget(ns, fmt.Sprintf("b%d", i), "many", intstr.FromInt32(1)))
	}
	all := manyPods(t, ns, pods)
	known(t, serving.GetCache(), all[len(all)-1])
	raw, err := json.Marshal(all[0])
	if err != nil {
		t.Fatal(err)
	}
	deletion := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Delete, Namespace: ns, Name: all[0].Name, DryRun: new(true), OldObject: k8sruntime.RawExtension{Raw: raw},
	}}
	handler := handlerOf(serving, serving.GetAPIReader())
	grown := peakOf(t, func() {
		var asking sync.WaitGroup
		for range requests {
			asking.Go(func() { handler.Handle(t.Context(), deletion) })
		}
		asking.Wait()
	})
	if grown > bound {
		t.Errorf("%d decisions about %d pods and %d budgets take %d MiB, want at most %d", requests, pods, budgets, grown>>20, bound>>20)
	}
}

// manyPods creates pods without a node, several at a time. The last one was created after all
// others.
func manyPods(t *testing.T, ns string, n int) []*corev1.Pod {
	t.Helper()
	all := make([]*corev1.Pod, n)
	for i := range all {
		all[i] = testenv.APod(fmt.Sprintf("pod-%d", i)).In(ns).Pod
		all[i].Labels = map[string]string{"app": "many"}
	}
	var next atomic.Int64
	var creating sync.WaitGroup
	for range 8 {
		creating.Go(func() {
			for i := next.Add(1) - 1; i < int64(n-1); i = next.Add(1) - 1 {
				if err := env.Client.Create(t.Context(), all[i]); err != nil {
					t.Errorf("create pod %s: %v", all[i].Name, err)
				}
			}
		})
	}
	creating.Wait()
	create(t, all[n-1])
	return all
}

// peakOf returns by how much the heap grows at most while a function runs.
func peakOf(t *testing.T, run func()) uint64 {
	t.Helper()
	heap := func() uint64 {
		runtime.GC()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // and not what was allocated since
		metrics.Read(live)
		return live[0].Value.Uint64()
	}
	before := heap()
	ctx, cancel := context.WithCancel(t.Context())
	peak := make(chan uint64)
	go func() {
		most := before
		for ctx.Err() == nil {
			most = max(most, heap())
		}
		peak <- most
	}()
	run()
	cancel()
	return <-peak - before
}
