package disruption

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// The cache keeps the finalizers that a handler may mean. A pod of 1 MB may have 100 000: to look each up in an annotation of
// 256 KiB took 33 s, for each event of the pod.
func TestTheCacheLooksAtFewFinalizersOfAPod(t *testing.T) {
	const hook = "example.com/hook"
	pod := &corev1.Pod{Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: policyv1beta1.ConditionInService}}}}
	pod.Annotations = map[string]string{policyv1beta1.AnnotationLifecycle: "preDelete: {finalizersHandler: [" + hook + "]}"}
	for _, tc := range []struct {
		before int
		want   []string
	}{{mostFinalizers - 1, []string{hook}}, {mostFinalizers, nil}} {
		pod.Finalizers = nil
		for i := range tc.before {
			pod.Finalizers = append(pod.Finalizers, fmt.Sprintf("example.com/other-%d", i))
		}
		pod.Finalizers = append(pod.Finalizers, hook)
		var kept corev1.Pod
		if podService(pod, &kept); !slices.Equal(kept.Finalizers, tc.want) {
			t.Errorf("after %d others: %v, want %v", tc.before, kept.Finalizers, tc.want)
		}
		if len(pod.Finalizers) != tc.before+1 || pod.Finalizers[tc.before] != hook {
			t.Error("the pod itself was changed")
		}
	}
}
