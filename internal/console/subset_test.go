package console_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// spreadOut are the facts of a pod of a Deployment that a WorkloadSpread has put into its subset a.
func spreadOut(subset string) (*facts.Facts, *corev1.Pod) {
	f := installed()
	f.ReplicaSets = []appsv1.ReplicaSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "rs", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d", Controller: new(true)},
	}}}}
	pod := testenv.APod("web-1-x").In("shop").On("n1").Of(&f.ReplicaSets[0], appsv1.SchemeGroupVersion.WithKind("ReplicaSet")).Ready()
	if subset != "" {
		pod = pod.With(appsv1beta1.AnnotationMatchedSpread, appsv1beta1.Match{Name: "zones", Subset: subset}.String())
	}
	f.Pods = []corev1.Pod{*pod.Pod}
	f.Spreads = []appsv1beta1.WorkloadSpread{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "zones"},
		Spec: appsv1beta1.WorkloadSpreadSpec{
			TargetReference: appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Subsets: []appsv1beta1.WorkloadSpreadSubset{{Name: "a", RequiredNodeSelector: &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"z1"}},
			}}}},
		},
	}}
	return f, &f.Pods[0]
}

func TestExplanationsKnowSpreads(t *testing.T) {
	f, pod := spreadOut("a")
	const placed = "WorkloadSpread zones, now in subset a (zone In z1)"
	e := console.Placement(f, pod)
	if !strings.Contains(e.Answer, placed) || e.Remedy != "" {
		t.Errorf("placement: %+v, want the subset, and no remedy that does nothing on a Deployment", e)
	}
	if e, err := console.Address(f, "shop", pod.Name); err != nil || e.Remedy != "" || !strings.Contains(strings.Join(e.Because, " "), "ReplicaSet get new names") {
		t.Errorf("address: %+v, %v, want no advice of which the Deployment is warned", e, err)
	}
	if h, err := console.History(f, "shop", pod.Name); err != nil || h.Subset != placed || !strings.Contains(h.Next, placed) {
		t.Errorf("history: %v, %+v", err, h)
	}
	pod.Status.Phase, pod.Spec.NodeName = corev1.PodPending, ""
	if e := console.Pending(f, pod); !strings.Contains(strings.Join(e.Because, " "), placed) {
		t.Errorf("pending: %+v", e)
	}
	f, pod = spreadOut("")
	if e := console.Placement(f, pod); !strings.Contains(e.Answer, "zones, and has no subset") {
		t.Errorf("a pod without a subset: %+v", e)
	}
	f.Spreads[0].Namespace = "other"
	if e := console.Placement(f, pod); strings.Contains(e.Answer, "zones") {
		t.Errorf("a spread of another namespace: %+v", e)
	}
	f.Unread = []facts.Unread{{Kind: "workloadspreads.apps.kruise.io"}}
	if e := console.Placement(f, pod); !strings.HasPrefix(e.Answer, "unknown") {
		t.Errorf("spreads that may not be read: %+v", e)
	}
}
