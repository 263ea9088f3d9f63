package testenv

import (
	"context"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CloneSets is the CloneSet of OpenKruise.
var CloneSets = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}

// What OpenKruise's controllers write onto their pods.
const (
	kruiseReady           = "KruisePodReady"
	inPlaceReady          = "InPlaceUpdateReady"
	kruiseRevision        = "controller-revision-hash"
	kruiseLifecycle       = "lifecycle.apps.kruise.io/state"
	kruiseInstance        = "apps.kruise.io/cloneset-instance-id"
	kruiseLifecycleTime   = "lifecycle.apps.kruise.io/timestamp"
	kruiseInPlaceState    = "apps.kruise.io/inplace-update-state"
	LabelSpecifiedDelete  = "apps.kruise.io/specified-delete"
	kruisePodNameOfASet   = "statefulset.kubernetes.io/pod-name"
	inPlaceStateOfASecond = `{"revision":"second","updateTimestamp":"2026-01-02T03:04:05Z","lastContainerStatuses":{"main":{"imageID":"old"}}}`
)

// OfKruise writes onto a pod what the controllers of OpenKruise write: labels with the revision, the
// state of the life cycle and of updates in place, and readiness gates.
func OfKruise(pod *corev1.Pod, revision string) *corev1.Pod {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, map[string]string{
		kruiseRevision: revision, kruiseLifecycle: "Normal", kruiseInstance: "x7k2p", kruisePodNameOfASet: "web-0", LabelSpecifiedDelete: "true",
	})
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, map[string]string{kruiseLifecycleTime: "2026-01-02T03:04:05Z", kruiseInPlaceState: inPlaceStateOfASecond})
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: kruiseReady}, {ConditionType: inPlaceReady}}
	return pod
}

// ReadyForKruise sets the conditions of the readiness gates, beside those of the pod.
func ReadyForKruise(pod *corev1.Pod, status corev1.ConditionStatus) *corev1.Pod {
	for _, of := range []corev1.PodConditionType{kruiseReady, inPlaceReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: of, Status: status})
	}
	return pod
}

// UpdateInPlace changes the image of a pod as OpenKruise does: it closes the readiness gate and writes
// that the pod is not Ready, and then it changes the image. After a refusal of the first write it does
// not make the second one.
func UpdateInPlace(ctx context.Context, kruise client.Client, pod *corev1.Pod, image string) error {
	if err := kruise.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	SetInPlaceReady(pod, corev1.ConditionFalse)
	if err := kruise.Status().Update(ctx, pod); err != nil {
		return err
	}
	if err := kruise.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	pod.Spec.Containers[0].Image = image
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, kruiseInPlaceState, inPlaceStateOfASecond)
	return kruise.Update(ctx, pod)
}

// SetInPlaceReady sets the readiness gate of updates in place, and the condition Ready as it follows.
func SetInPlaceReady(pod *corev1.Pod, status corev1.ConditionStatus) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == inPlaceReady || c.Type == corev1.PodReady {
			c.Status, c.LastTransitionTime = status, metav1.Now()
		}
	}
}

// KeepsKruise fails if a pod lacks anything that OpenKruise wrote, or has it changed.
func KeepsKruise(t testing.TB, pod *corev1.Pod, revision string) {
	t.Helper()
	want := OfKruise(&corev1.Pod{}, revision)
	for key, value := range want.Labels {
		if pod.Labels[key] != value {
			t.Errorf("pod %s: label %s is %q, want %q", pod.Name, key, pod.Labels[key], value)
		}
	}
	for key, value := range want.Annotations {
		if pod.Annotations[key] != value {
			t.Errorf("pod %s: annotation %s is %q, want %q", pod.Name, key, pod.Annotations[key], value)
		}
	}
	if diff := cmp.Diff(want.Spec.ReadinessGates, pod.Spec.ReadinessGates); diff != "" {
		t.Errorf("readiness gates of pod %s (-want +got):\n%s", pod.Name, diff)
	}
}
