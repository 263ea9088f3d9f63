package creation_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
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

// The API server asks about a pod before it looks at the name of the pod. Names that no pod can have are in no book, so
// that a few of them do not fill it.
func TestNamesThatNoPodCanHaveAreInNoBook(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	template := testenv.AStatefulSet("job", 1).Spec.Template
	template.Labels, template.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "job"}, Spec: batchv1.JobSpec{Parallelism: new(int32(20)), Template: template}}
	env.Create(t, job)
	of := func(name string) *corev1.Pod {
		return testenv.APod(name).Of(job, batchv1.SchemeGroupVersion.WithKind("Job")).Pod
	}
	env.Create(t, aSpread(ns, "ws", "batch/v1", "Job", "job", "a=5", "b=5"))
	foreseen(t, "a", of("first"))
	for _, c := range "abcdefghij" {
		if err := env.Client.Create(t.Context(), of(strings.Repeat(string(c), 98<<10))); err == nil || !strings.Contains(err.Error(), "253 bytes at most") {
			t.Fatalf("a pod with a long name: %.200v, want it refused by the webhook", err)
		}
	}
	var books limpetv1alpha1.DisruptionBookList
	if err := env.Client.List(t.Context(), &books, client.InNamespace(ns)); err != nil || len(books.Items) > 0 && len(books.Items[0].Entries) > 0 {
		t.Errorf("books %+.300v, %v; want none with entries", books.Items, err)
	}
	placed(t, "a", of("first"))
}
