package guard_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// A pod as large as etcd takes costs the match conditions of the API server no more than they
// may cost: a condition that fails would let the request pass.
func TestAHugePodIsJudged(t *testing.T) {
	serve(t)
	user, ns := editor(t), env.Namespace(t, policyv1beta1.LabelBudgets, policyv1beta1.LabelBudgetsClosed) // an open one lets a pod go after a late answer
	set := testenv.AStatefulSet("web", 2).In(ns)
	put(t, aBudget(ns, "web", "web", intstr.FromInt32(0)), set.StatefulSet, aPod(set, 1))
	pod := aPod(set, 0)
	for i := range 9000 {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("E%d", i), Value: "12345678"})
		metav1.SetMetaDataLabel(&pod.ObjectMeta, fmt.Sprintf("l%d", i), strings.Repeat("v", 20))
	}
	for i := range 4000 {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, fmt.Sprintf("a%d", i), strings.Repeat("v", 40))
		pod.Finalizers = append(pod.Finalizers, fmt.Sprintf("example.com/f%d", i))
	}
	put(t, pod)
	for what, edit := range map[string]func(*corev1.Pod){
		"a label":       func(p *corev1.Pod) { p.Labels["app"] = "other" },
		"an exemption":  func(p *corev1.Pod) { p.Annotations["pub.kruise.io/no-protect"] = "true" },
		"another image": func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.com/other" },
	} {
		t.Run(what, func(t *testing.T) {
			refusedBy(t, inTime(t.Context(), func() error {
				after := pod.DeepCopy()
				edit(after)
				return user.Update(t.Context(), after)
			}), "web")
		})
	}
	refusedBy(t, inTime(t.Context(), func() error { return plainly(deletePod)(t, pod) }), "web")
	refusedBy(t, evictAs(t.Context(), env.Client, pod), "web")
}
