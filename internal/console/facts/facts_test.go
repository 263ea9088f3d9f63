package facts_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
)

// TestPodsAreFoundByName also has the pods replaced between two questions, as support-bundle does.
func TestPodsAreFoundByName(t *testing.T) {
	pod := func(namespace, name string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	f := &facts.Facts{}
	for _, step := range []struct {
		pods  []corev1.Pod
		known bool
	}{
		{nil, false},
		{[]corev1.Pod{pod("a", "web-0"), pod("b", "web-1")}, true},
		{[]corev1.Pod{pod("a", "web-0"), pod("b", "web-0")}, false},
		{[]corev1.Pod{pod("b", "web-1")}, true},
		{nil, false},
	} {
		f.Pods = step.pods
		got := f.Pod("b", "web-1")
		if (got != nil) != step.known || got != nil && (got.Namespace != "b" || got.Name != "web-1") {
			t.Errorf("among %d pods, b/web-1 is %v, want known %t", len(step.pods), got, step.known)
		}
	}
	f.Pods = []corev1.Pod{pod("b", "web-1")}
	f.Pod("b", "web-1").Labels = map[string]string{"of": "the list"}
	if f.Pods[0].Labels["of"] != "the list" {
		t.Error("the answer is a copy")
	}
}
