package validate_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

func TestAnObjectOfEachVersionIsReadAsTheOther(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	alpha, beta := testenv.AFormerPersistentPodState("alpha", ns), testenv.APersistentPodState("beta").In(ns).Requires("zone").Prefers(7, "rack", hostname).PersistentPodState
	env.Create(t, alpha, beta)
	var alphaAsBeta appsv1beta1.PersistentPodState
	env.Read(t, client.ObjectKeyFromObject(alpha), &alphaAsBeta)
	want := testenv.APersistentPodState("alpha").Requires("zone").Prefers(7, "rack", hostname).Spec
	want.PersistentPodStateRetentionPolicy = "Sometimes"
	if diff := cmp.Diff(want, alphaAsBeta.Spec); diff != "" {
		t.Errorf("v1alpha1 read as v1beta1 (-want +got):\n%s", diff)
	}
	var betaAsAlpha appsv1alpha1.PersistentPodState
	env.Read(t, client.ObjectKeyFromObject(beta), &betaAsAlpha)
	wantAlpha := testenv.AFormerPersistentPodState("beta", ns).Spec
	wantAlpha.PersistentPodStateRetentionPolicy = ""
	if diff := cmp.Diff(wantAlpha, betaAsAlpha.Spec); diff != "" {
		t.Errorf("v1beta1 read as v1alpha1 (-want +got):\n%s", diff)
	}
}

// A policy that only v1alpha1 allows stays, and hinders no change.
func TestAnObjectOfEachVersionIsChangedAsTheOther(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	alpha, beta := testenv.AFormerPersistentPodState("alpha", ns), testenv.APersistentPodState("beta").In(ns).Requires("zone").Prefers(7, "rack", hostname).PersistentPodState
	env.Create(t, alpha, beta)
	asBeta := &appsv1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "alpha"}}
	env.Change(t, asBeta, func() { asBeta.Spec.RequiredPersistentTopology.Keys = []string{"zone", "region"} })
	env.Read(t, client.ObjectKeyFromObject(alpha), alpha)
	if diff := cmp.Diff([]string{"zone", "region"}, alpha.Spec.RequiredPersistentTopology.NodeTopologyKeys); diff != "" {
		t.Errorf("changed as v1beta1 (-want +got):\n%s", diff)
	}
	asAlpha := &appsv1alpha1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "beta"}}
	env.Change(t, asAlpha, func() { asAlpha.Spec.PreferredPersistentTopology[0].Preference.NodeTopologyKeys = []string{"row"} })
	env.Read(t, client.ObjectKeyFromObject(beta), beta)
	if diff := cmp.Diff([]string{"row"}, beta.Spec.PreferredPersistentTopology[0].Preference.Keys); diff != "" {
		t.Errorf("changed as v1alpha1 (-want +got):\n%s", diff)
	}
}

func TestTheStatusOfAnObjectIsReadAsTheOtherVersion(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	env.Create(t, testenv.AFormerPersistentPodState("alpha", ns), testenv.APersistentPodState("beta").In(ns).Requires("zone").PersistentPodState)
	var written appsv1beta1.PersistentPodStateList
	if err := env.Client.List(t.Context(), &written, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for i := range written.Items {
		s := &written.Items[i]
		s.Status.ObservedGeneration = s.Generation
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
			Type: appsv1beta1.ConditionRecording, Status: metav1.ConditionFalse, Reason: appsv1beta1.ReasonTargetMissing,
		})
		if err := env.Client.Status().Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	var read appsv1alpha1.PersistentPodStateList
	if err := env.Client.List(t.Context(), &read, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, s := range read.Items {
		c := meta.FindStatusCondition(s.Status.Conditions, appsv1beta1.ConditionRecording)
		if c == nil || c.Reason != appsv1beta1.ReasonTargetMissing || s.Status.ObservedGeneration != s.Generation {
			t.Errorf("status of %s: %+v", s.Name, s.Status)
		}
	}
	if len(read.Items) != 2 {
		t.Errorf("%d objects, want 2", len(read.Items))
	}
}

func TestAManifestOfOpenKruisesUsersAppliesAsItIs(t *testing.T) {
	serve(t)
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "test", "e2e", "testdata", "persistentpodstate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var sample appsv1alpha1.PersistentPodState
	if err := utilyaml.UnmarshalStrict(text, &sample); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sample.Namespace}}
	if err := env.Client.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil { // namespaces stay
		t.Fatal(err)
	}
	env.Create(t, &sample)
	var state appsv1beta1.PersistentPodState
	env.Read(t, client.ObjectKeyFromObject(&sample), &state)
	want := testenv.APersistentPodState("echoserver").Prefers(100, hostname).Requires(corev1.LabelFailureDomainBetaZone).Spec
	want.TargetReference.APIVersion = "apps.kruise.io/v1beta1"
	if diff := cmp.Diff(want, state.Spec); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
}
