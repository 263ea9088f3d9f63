package testenv

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	policyv1alpha1 "github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
)

// AFormerPersistentPodState begins a v1alpha1 with every field that differs from v1beta1.
func AFormerPersistentPodState(name, namespace string) *appsv1alpha1.PersistentPodState {
	s := &appsv1alpha1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	s.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name}
	s.Spec.RequiredPersistentTopology = &appsv1alpha1.NodeTopologyTerm{NodeTopologyKeys: []string{"zone"}}
	s.Spec.PreferredPersistentTopology = []appsv1alpha1.PreferredTopologyTerm{{
		Weight: 7, Preference: appsv1alpha1.NodeTopologyTerm{NodeTopologyKeys: []string{"rack", corev1.LabelHostname}},
	}}
	s.Spec.PersistentPodStateRetentionPolicy = "Sometimes"
	return s
}

// unserved tells that a version of a CRD is the one with which Limpet's CRDs begin.
func unserved(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "limpet" }

// StoreFormerVersion makes the CRD of PersistentPodStates as OpenKruise has it: v1alpha1
// is the only version.
func (e *Env) StoreFormerVersion(t testing.TB, namespace string) {
	t.Helper()
	e.storeFormer(t, ConvertedCRD, func(spec *apiextensionsv1.JSONSchemaProps) {
		annotations := spec.Properties["persistentPodAnnotations"]
		annotations.MaxItems = new(int64) // tells this CRD from the one before
		spec.Properties["persistentPodAnnotations"] = annotations
	})
	// For a moment the API server serves by this CRD and still stores by the one before.
	Eventually(t, func() error {
		probe := AFormerPersistentPodState("probe", namespace)
		probe.Spec.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: "k"}}
		if err := e.Client.Create(t.Context(), probe, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the CRD before is still in use: %w", err)
		}
		return nil
	})
}

// storeFormer makes v1alpha1 the only version of a CRD, and changes the schema of its spec.
func (e *Env) storeFormer(t testing.TB, crd string, change func(spec *apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	e.ChangeCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions, unserved)
		for i := range crd.Spec.Versions {
			v := &crd.Spec.Versions[i]
			v.Served, v.Storage = v.Name == "v1alpha1", v.Name == "v1alpha1"
			spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
			change(&spec)
			v.Schema.OpenAPIV3Schema.Properties["spec"] = spec
		}
	})
}

// storeWithoutRules is storeFormer without the rules of the CRD. It waits until the API server takes a probe that breaks one.
func (e *Env) storeWithoutRules(t testing.TB, crd string, probe client.Object) {
	t.Helper()
	e.storeFormer(t, crd, func(spec *apiextensionsv1.JSONSchemaProps) { spec.XValidations = nil })
	Eventually(t, func() error { // as for PersistentPodStates
		if err := e.Client.Create(t.Context(), probe.DeepCopyObject().(client.Object), client.DryRunAll); err != nil {
			return fmt.Errorf("the CRD before is still in use: %w", err)
		}
		return nil
	})
}

// AFormerBudget begins a v1alpha1 with all that differs from v1beta1, and an annotation that
// cannot be read.
func AFormerBudget(name, namespace string) *policyv1alpha1.PodUnavailableBudget {
	b := &policyv1alpha1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: map[string]string{
		policyv1alpha1.AnnotationProtectOperations: "DELETE,EVICT", policyv1alpha1.AnnotationProtectTotalReplicas: "about ten",
	}}}
	b.Spec.TargetReference = &policyv1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	b.Spec.MaxUnavailable = new(intstr.FromString("60%"))
	return b
}

// StoreFormerBudgets makes the CRD of PodUnavailableBudgets as OpenKruise has it: v1alpha1 is
// the only version, and the CRD has no rules.
func (e *Env) StoreFormerBudgets(t testing.TB, namespace string) {
	t.Helper()
	probe := AFormerBudget("probe", namespace)
	probe.Spec.MaxUnavailable = nil
	e.storeWithoutRules(t, ConvertedBudgets, probe)
}

// AFormerSpread begins a v1alpha1 with all that differs from v1beta1, and a condition without a
// reason.
func AFormerSpread(name, namespace string) *appsv1alpha1.WorkloadSpread {
	inZone := func(zone string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
		}}
	}
	s := &appsv1alpha1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	s.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	s.Spec.Subsets = []appsv1alpha1.WorkloadSpreadSubset{
		{Name: "a", RequiredNodeSelectorTerm: new(inZone("zone-a")), MaxReplicas: new(intstr.FromString("30%"))},
		{Name: "b", PreferredNodeSelectorTerms: []corev1.PreferredSchedulingTerm{{Weight: 7, Preference: inZone("zone-b")}}},
	}
	s.Status.SubsetStatuses = []appsv1alpha1.WorkloadSpreadSubsetStatus{
		{Name: "a", Replicas: 2, Conditions: []appsv1alpha1.SubsetCondition{{Type: appsv1beta1.ConditionSchedulable, Status: metav1.ConditionTrue}}},
		{Name: "b", MissingReplicas: appsv1beta1.MissingUnlimited},
	}
	s.Status.VersionedSubsetStatuses = map[string]appsv1alpha1.VersionedSubsets{"5d4c": s.Status.SubsetStatuses}
	return s
}

// StoreFormerSpreads makes the CRD of WorkloadSpreads as OpenKruise has it: v1alpha1 is the only
// version, and the CRD has no rules.
func (e *Env) StoreFormerSpreads(t testing.TB, namespace string) {
	t.Helper()
	probe := AFormerSpread("probe", namespace)
	probe.Spec.Subsets[1].MaxReplicas = new(intstr.FromInt32(1)) // not of the type of the first
	e.storeWithoutRules(t, ConvertedSpreads, probe)
}

// StoredAs waits until the objects of each CRD are stored in one version alone.
func (e *Env) StoredAs(t testing.TB, version string) {
	t.Helper()
	for _, name := range convertedCRDs {
		Eventually(t, func() error {
			var crd apiextensionsv1.CustomResourceDefinition
			if err := e.Client.Get(t.Context(), client.ObjectKey{Name: name}, &crd); err != nil {
				return err
			}
			return diff("stored versions of "+name, []string{version}, crd.Status.StoredVersions)
		})
	}
}

// Compact has etcd forget what was before a revision, as the API server does after five minutes.
func (e *Env) Compact(t testing.TB, revision string) {
	t.Helper()
	store := e.server.ControlPlane.Etcd.URL.JoinPath("v3", "kv", "compaction").String()
	body := strings.NewReader(`{"revision": "` + revision + `", "physical": true}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, store, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(answer.Body)
		t.Fatalf("compact etcd to revision %s: %s %s", revision, answer.Status, said)
	}
}
