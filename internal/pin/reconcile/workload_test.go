package reconcile_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

var gameServers, kruiseSets = testenv.GameServers, testenv.KruiseSets

// kindsList is the ConfigMap that names kinds.
func kindsList(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	var config corev1.ConfigMap
	env.Read(t, client.ObjectKey{Namespace: "limpet-system", Name: workloads.KindsConfigMap}, &config)
	return &config
}

// rename changes the list of kinds.
func rename(t *testing.T, text string) {
	t.Helper()
	config := kindsList(t)
	env.Change(t, config, func() { config.Data[workloads.KindsKey] = text })
}

// aWorkload makes a workload of a further kind, as soon as the API server serves the kind.
func aWorkload(t *testing.T, kind schema.GroupVersionKind, ns, name string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(ns)
	o.SetName(name)
	if spec == nil {
		o.SetAnnotations(map[string]string{
			appsv1beta1.AnnotationAutoGenerate: "true", appsv1beta1.AnnotationPreferredTopology: hostname,
		})
		o.Object["spec"] = map[string]any{}
	}
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), o) })
	return o
}

// resize changes how many replicas a workload wants, at the field that its kind has for it.
func resize(t *testing.T, o *unstructured.Unstructured, replicas int64) {
	t.Helper()
	setField(t, o, replicas, "spec", testenv.ReplicasField(o.GroupVersionKind()))
}

func setField(t *testing.T, o *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	env.Change(t, o, func() {
		if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	})
}

// asking asks that a workload's pods return.
func asking(ns, name string, kind schema.GroupVersionKind) *appsv1beta1.PersistentPodState {
	s := testenv.APersistentPodState(name).In(ns).Prefers(100, hostname).PersistentPodState
	s.Spec.TargetReference.APIVersion, s.Spec.TargetReference.Kind = kind.GroupVersion().String(), kind.Kind
	s.Spec.PersistentPodStateRetentionPolicy = appsv1beta1.RetainWhenScaled
	return s
}

// isRecorded sees a pod of a workload recorded, and removes the pod.
func isRecorded(t *testing.T, workload client.Object, kind schema.GroupVersionKind, name string, node testenv.Node) {
	t.Helper()
	recording(t, workload)
	pod := testenv.APod(name).Of(workload, kind).On(node.Name).Ready().Pod
	env.Create(t, pod)
	testenv.Eventually(t, func() error {
		state, err := env.State(t, workload)
		if got := state.Status.PodStates[name]; err == nil && (got.NodeName != node.Name || got.UID != pod.UID) {
			err = fmt.Errorf("record of %s: %+v", name, got)
		}
		return err
	})
	env.Remove(t, pod)
}

// recording waits until the pods of a workload are recorded.
func recording(t *testing.T, of client.Object) {
	t.Helper()
	env.Condition(t, of, appsv1beta1.ConditionRecording, metav1.ConditionTrue, appsv1beta1.ReasonRecording, "")
}

// unread waits until the target of a PersistentPodState cannot be read, for a reason.
func unread(t *testing.T, of client.Object, word string) {
	t.Helper()
	env.Condition(t, of, appsv1beta1.ConditionRecording, metav1.ConditionFalse, appsv1beta1.ReasonTargetUnread, word)
}
