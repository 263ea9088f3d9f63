package admit_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/testenv"
)

// Pods of a target take no slots of another target whose spread has the name of the former one.
func TestASpreadOfTheSameNameBeginsAnew(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	template := testenv.AStatefulSet("job", 1).Spec.Template
	template.Labels, template.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
	of := func(name string) func() *corev1.Pod {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: batchv1.JobSpec{Parallelism: new(int32(2)), Template: template}}
		env.Create(t, job)
		return func() *corev1.Pod {
			pod := testenv.APod("").Of(job, batchv1.SchemeGroupVersion.WithKind("Job")).Pod
			pod.GenerateName = name + "-"
			return pod
		}
	}
	first, second := of("first"), of("second")
	former := aSpread(ns, "ws", "batch/v1", "Job", "first", "a=1", "b=1")
	env.Create(t, former)
	sent(t, first())
	placed(t, "a b", first(), first())
	env.Remove(t, former)
	env.Create(t, aSpread(ns, "ws", "batch/v1", "Job", "second", "a=1", "b=1"))
	foreseen(t, "a", second())
	placed(t, "a b", second(), second())
}
