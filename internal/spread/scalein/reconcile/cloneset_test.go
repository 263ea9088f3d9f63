package reconcile_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

var cloneSets = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}

// The pods of a CloneSet have the costs of their spread, and no layers: OpenKruise balances them.
// Nothing else of the pods changes.
func TestCostsOfACloneSet(t *testing.T) {
	env.ServeKind(t, cloneSets)
	ns := env.Namespace(t)
	set := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "web", "namespace": ns, "annotations": map[string]any{order: balanced}},
		"spec":     map[string]any{"replicas": int64(4)},
	}}
	set.SetGroupVersionKind(cloneSets)
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), set) }) // a new kind is served a moment later
	env.RemoveAtEnd(t, set)
	x, y := node(t, "x"), node(t, "y")
	pod := func(name, node string) *corev1.Pod {
		p := testenv.APod(name).Of(set, cloneSets).On(node).Ready()
		p.Labels = map[string]string{"lifecycle.apps.kruise.io/state": "Normal", "apps.kruise.io/specified-delete": "true"}
		p = p.With("apps.kruise.io/inplace-update-state", "{}")
		env.Create(t, p.Pod)
		return p.Pod
	}
	before := pod("x-0", x)
	pod("x-1", x)
	pod("y-0", y)
	ws := aSpread(t, &app{Deployment: anApp(t, 0, nil).Deployment}, intstr.FromString("25%"), "x", "y")
	env.Remove(t, ws) // of another target
	ws.Namespace, ws.ResourceVersion, ws.UID = ns, "", ""
	ws.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: cloneSets.GroupVersion().String(), Kind: cloneSets.Kind, Name: "web"}
	env.Create(t, ws)
	start(t)
	have(t, ns, map[string]string{"x-0": "1799970000", "x-1": "1799849999", "y-0": "1799940000"})
	got := testenv.APod("x-0").In(ns)
	env.Read(t, client.ObjectKeyFromObject(got.Pod), got.Pod)
	if !maps.Equal(got.Labels, before.Labels) || got.Annotations["apps.kruise.io/inplace-update-state"] != "{}" || len(got.Annotations) != 3 {
		t.Errorf("labels %v and annotations %v are not those that OpenKruise wrote", got.Labels, got.Annotations)
	}
	env.Remove(t, ws)
	have(t, ns, map[string]string{"x-0": "", "x-1": "", "y-0": ""})
}
