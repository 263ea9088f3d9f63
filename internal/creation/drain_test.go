package creation_test

import (
	"cmp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// A pod that is out of service before it goes has a readiness gate, once, beside those of its user.
func TestAPodThatDrainsFirstHasAGate(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	user := corev1.PodReadinessGate{ConditionType: "example.com/own"}
	ours := corev1.PodReadinessGate{ConditionType: policyv1beta1.ConditionInService}
	for name, tc := range map[string]struct {
		key       string
		value     string
		has, want []corev1.PodReadinessGate
		warning   bool
	}{
		"asks":             {"", "10s", nil, []corev1.PodReadinessGate{ours}, false},
		"has another":      {"", "10m", []corev1.PodReadinessGate{user}, []corev1.PodReadinessGate{user, ours}, false},
		"has it":           {"", "1s", []corev1.PodReadinessGate{ours}, []corev1.PodReadinessGate{ours}, false},
		"asks too long":    {"", "10m1s", nil, nil, true},
		"is no time":       {"", "10", nil, nil, true},
		"names a handler":  {policyv1beta1.AnnotationLifecycle, "preDelete: {labelsHandler: {a: b}}", nil, []corev1.PodReadinessGate{ours}, false},
		"names no handler": {policyv1beta1.AnnotationLifecycle, "preDelete: {}", nil, nil, true},
		"asks nothing":     {"", "", nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, heard := env.Listen(t)
			pod := testenv.APod(env.Name("web")).In(ns).With(cmp.Or(tc.key, policyv1beta1.AnnotationDrainFirst), tc.value).Pod
			pod.Spec.ReadinessGates = tc.has
			if err := c.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			env.RemoveAtEnd(t, pod)
			if !slices.Equal(pod.Spec.ReadinessGates, tc.want) {
				t.Errorf("gates %v, want %v", pod.Spec.ReadinessGates, tc.want)
			}
			if err := heard.Names(cmp.Or(tc.key, policyv1beta1.AnnotationDrainFirst)); (err == nil) != tc.warning {
				t.Errorf("warned %v, want %t", err, tc.warning)
			}
		})
	}
}
