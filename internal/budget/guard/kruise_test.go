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
	kubelet(t, updating)
	known(t, serving.GetCache(), updating)
	if err := kruise.Delete(t.Context(), updating); err != nil {
		t.Errorf("delete the pod that has the unit: %v", err)
	}
}

// OpenKruise turns a pod not Ready before it changes the pod in place. The first of these writes takes
// the unit, and the second one takes no other. A pod whose first write is refused keeps all its containers.
func TestOpenKruiseTurnsAPodNotReadyFirst(t *testing.T) {
	ns := guarded(t)
	_, pods := web(t, ns, 3, intstr.FromInt32(1))
	for _, pod := range pods {
		testenv.ReadyForKruise(pod, corev1.ConditionTrue)
		kubelet(t, pod)
		known(t, serving.GetCache(), pod)
	}
	kruise := as(t, "system:serviceaccount:kruise-system:kruise-manager")
	refusedBy(t, func() error {
		if err := testenv.UpdateInPlace(t.Context(), kruise, pods[0], "registry.example.com/bad"); err != nil {
			t.Errorf("the first update in place: %v", err)
		}
		return testenv.UpdateInPlace(t.Context(), kruise, pods[1], "registry.example.com/bad")
	}(), "web")
	env.Read(t, client.ObjectKeyFromObject(pods[1]), pods[1])
	if image := pods[1].Spec.Containers[0].Image; image == "registry.example.com/bad" {
		t.Error("the image was changed after the refusal")
	}
	for _, book := range booksOf(t, ns) {
		if len(book.Entries) != 1 || book.Entries[0].UID != pods[0].UID || book.Entries[0].Use != "Changed" {
			t.Errorf("entries %+v, want one of the first pod", book.Entries)
		}
	}
	known(t, serving.GetCache(), pods[0])
	if err := testenv.UpdateInPlace(t.Context(), kruise, pods[0], "registry.example.com/good"); err != nil {
		t.Errorf("a second update of the pod that has the unit: %v", err)
	}
	refusedBy(t, evictAs(t.Context(), env.Client, pods[2]), "web")
	silent := pods[2].DeepCopy() // its node went silent
	silent.Status.Conditions[0].Status = corev1.ConditionFalse
	if err := as(t, "system:serviceaccount:kube-system:node-controller").Status().Update(t.Context(), silent); err != nil {
		t.Errorf("a status that is not to be refused: %v", err)
	}
	env.Read(t, client.ObjectKeyFromObject(pods[1]), pods[1])
	failed := pods[1].DeepCopy() // as a program in the place of a kubelet tells it
	failed.Status.Conditions[0].Status = corev1.ConditionFalse
	failed.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: failed.Spec.Containers[0].Name, RestartCount: 1}}
	if err := as(t, "system:serviceaccount:virtual:kubelet").Status().Update(t.Context(), failed); err != nil {
		t.Errorf("a container that has failed: %v", err)
	}
}

// A write of the status changes labels, too.
func TestAPodLeavesNoBudgetByItsStatus(t *testing.T) {
	ns := guarded(t)
	_, pods := web(t, ns, 2, intstr.FromInt32(0))
	pods[0].Labels = map[string]string{"app": "other"}
	refusedBy(t, env.Client.Status().Update(t.Context(), pods[0]), "web")
}
