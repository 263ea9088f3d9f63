package reconcile

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// A user lets a StatefulSet always have a pod that waits, and replaces the others.
func TestOpenedGatesAreForgotten(t *testing.T) {
	var m memory
	req := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "tenant", Name: "web"}}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := func(i int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i)), ResourceVersion: "7"}}
	}
	for i := range 1000 {
		m.wait(req, 1)
		m.opened(req, pod(i), now.Add(time.Duration(i)*time.Second))
	}
	if n := len(m.sets[req].writes); n > 61 {
		t.Errorf("%d gates that were opened are remembered, want those of a minute", n)
	}
	m.wait(req, 0) // the last pod has gone on
	older := pod(999)
	older.ResourceVersion = "6"
	if !m.unseen(req, older, now.Add(1000*time.Second)) {
		t.Error("a gate that was opened a second ago is forgotten")
	}
	other := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "tenant", Name: "other"}}
	m.opened(other, pod(0), now.Add(2000*time.Second))
	if len(m.sets) != 1 || m.sets[other] == nil {
		t.Errorf("%d sets are remembered, want the last one", len(m.sets))
	}
}
