package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
)

// TestTheCacheShowsThatANodePauses puts a node that has just said that it is not Ready into the caches of all features
// together. Pods must wait for such a node, also where the clock of the controller is 61 s ahead of that of the node.
func TestTheCacheShowsThatANodePauses(t *testing.T) {
	now := time.Now()
	var all []cluster.Needs
	for _, f := range features(options{}) {
		all = append(all, f.needs...)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-61 * time.Second))},
	}
	for kind, by := range cluster.CacheOptions(all...).ByObject {
		if _, ofNodes := kind.(*corev1.Node); !ofNodes {
			continue
		}
		kept, err := by.Transform(node)
		if err != nil {
			t.Fatal(err)
		}
		if !fit.Pausing(kept.(*corev1.Node), &corev1.Pod{}, now) {
			t.Errorf("the cache keeps %+v, with which the node does not pause", kept.(*corev1.Node).Status)
		}
		return
	}
	t.Error("no cache holds nodes")
}
