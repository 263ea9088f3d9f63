package guard_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
)

// OpenKruise marks a pod that it will delete or update, which costs nothing. Its update in place
// takes a unit, and its deletion is judged as any other.
func TestUpdatesInPlaceAndSpecifiedDeletesOfOpenKruise(t *testing.T) {
	env.ServeKind(t, testenv.CloneSets)
	ns := guarded(t)
	set := env.OfKind(t, testenv.CloneSets, ns, "web", map[string]any{"replicas": int64(3)})
	template := testenv.AStatefulSet("web", 3).In(ns)
	var pods []*corev1.Pod
	pub := aBudget(ns, "web", "web", intstr.FromInt32(1))
	pub.Spec.ProtectTotalReplicas = new(int32(3))
	put(t, pub)
	for i := range 3 {
		pod := aPod(template, i)
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, testenv.CloneSets)}
		testenv.ReadyForKruise(testenv.OfKruise(pod, "first"), corev1.ConditionTrue)
		delete(pod.Labels, testenv.LabelSpecifiedDelete)
		put(t, pod)
		pods = append(pods, pod)
	}
	kruise := as(t, "system:serviceaccount:kruise-system:kruise-manager")
	for _, pod := range pods {
		before := pod.DeepCopy()
		pod.Labels[testenv.LabelSpecifiedDelete], pod.Labels["lifecycle.apps.kruise.io/state"] = "true", "PreparingDelete"
		pod.Annotations["apps.kruise.io/inplace-update-state"] = `{"revision":"third"}`
		if err := kruise.Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
			t.Errorf("mark pod %s: %v", pod.Name, err)
		}
	}
	inPlace := func(pod *corev1.Pod) error {
		before := pod.DeepCopy()
		pod.Spec.Containers[0].Image = "registry.example.com/new"
		pod.Labels["controller-revision-hash"] = "second"
		return kruise.Patch(t.Context(), pod, client.MergeFrom(before))
	}
	if err := inPlace(pods[0]); err != nil {
		t.Errorf("the first update in place: %v", err)
	}
	refusedBy(t, inPlace(pods[1].DeepCopy()), "web")
	refusedBy(t, kruise.Delete(t.Context(), pods[2]), "web")
	updating := pods[0]
	updating.Status.Conditions = nil // as the kubelet writes while a readiness gate is False
	testenv.ReadyForKruise(updating, corev1.ConditionFalse)
	if err := env.Client.Status().Update(t.Context(), updating); err != nil {
		t.Fatal(err)
	}
	known(t, serving.GetCache(), updating)
	if err := kruise.Delete(t.Context(), updating); err != nil {
		t.Errorf("delete the pod that has the unit: %v", err)
	}
}
