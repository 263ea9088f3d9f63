package validate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	policyv1alpha1 "github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// aManifest is what users of OpenKruise apply.
const aManifest = `
apiVersion: policy.kruise.io/v1alpha1
kind: PodUnavailableBudget
metadata:
  name: web-server-pub
  namespace: web
spec:
  targetRef:                     # targetRef or selector, one of the two
    apiVersion: apps/v1          # or apps.kruise.io/v1alpha1
    kind: Deployment             # CloneSet, StatefulSet, any kind with a scale subresource
    name: web-server
  # selector:
  #   matchLabels:
  #     app: web-server
  maxUnavailable: 60%
  # minAvailable: 40%            # one of the two
`

func TestABudgetOfOpenKruisesUsersAppliesAsItIs(t *testing.T) {
	serve(t)
	var sample formerPub
	if err := utilyaml.UnmarshalStrict([]byte(aManifest), &sample); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sample.Namespace}}
	if err := env.Client.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil { // namespaces stay
		t.Fatal(err)
	}
	want := sample.DeepCopy()
	env.Create(t, &sample)
	var alpha formerPub
	var beta pub
	env.Read(t, client.ObjectKeyFromObject(&sample), &alpha)
	env.Read(t, client.ObjectKeyFromObject(&sample), &beta)
	if diff := cmp.Diff(want.Spec, alpha.Spec); diff != "" || len(alpha.Annotations) > 0 {
		t.Errorf("annotations %v, spec as v1alpha1 (-want +got):\n%s", alpha.Annotations, diff)
	}
	wantBeta := policyv1beta1.PodUnavailableBudgetSpec{
		TargetReference: &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-server"},
		MaxUnavailable:  new(intstr.FromString("60%")),
	}
	if diff := cmp.Diff(wantBeta, beta.Spec); diff != "" || len(beta.Annotations) > 0 {
		t.Errorf("annotations %v, spec as v1beta1 (-want +got):\n%s", beta.Annotations, diff)
	}
	labelled(t, sample.Namespace, "open")
}

// What scripts read of kubectl's output is where OpenKruise has it, in both versions.
func TestBudgetsAreShownAsByOpenKruise(t *testing.T) {
	crd := env.ManifestCRD(t, testenv.ConvertedBudgets)
	if diff := cmp.Diff([]string{"pub"}, crd.Spec.Names.ShortNames); diff != "" {
		t.Errorf("short names (-want +got):\n%s", diff)
	}
	served := slices.DeleteFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Served })
	for _, v := range served {
		var columns []string
		for _, c := range v.AdditionalPrinterColumns {
			columns = append(columns, c.Name+" "+c.JSONPath)
		}
		want := []string{
			"Allowed .status.unavailableAllowed", "Current .status.currentAvailable",
			"Desired .status.desiredAvailable", "Total .status.totalReplicas",
		}
		if len(columns) != 6 || !slices.Equal(columns[:4], want) || v.Subresources == nil || v.Subresources.Status == nil {
			t.Errorf("%s: columns %q, subresources %v; want first %q, and a status", v.Name, columns, v.Subresources, want)
		}
	}
	if len(served) != 2 {
		t.Errorf("%d versions, want 2", len(served))
	}
}

// A client of v1alpha1 that reads and writes a budget takes nothing away from it.
func TestABudgetIsChangedInBothVersions(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	full := ofTarget(ns, "web", func(b *pub) {
		b.Spec.ProtectOperations = []policyv1beta1.Operation{policyv1beta1.OperationDelete, policyv1beta1.OperationEvict}
		b.Spec.ProtectTotalReplicas = new(int32(7))
		b.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}
	})
	env.Create(t, full)
	alpha := &formerPub{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	env.Change(t, alpha, func() {
		want := map[string]string{
			"kruise.io/pub-protect-operations": "DELETE,EVICT", "pub.kruise.io/protect-total-replicas": "7",
			"limpet.dev/ignored-pod-selector": `{"matchLabels":{"canary":"true"}}`,
		}
		if diff := cmp.Diff(want, alpha.Annotations); diff != "" {
			t.Errorf("annotations in v1alpha1 (-want +got):\n%s", diff)
		}
		alpha.Annotations[policyv1alpha1.AnnotationProtectTotalReplicas] = "8"
		alpha.Labels = map[string]string{"a": "b"}
	})
	want := full.Spec.DeepCopy()
	want.ProtectTotalReplicas = new(int32(8))
	env.Change(t, full, func() {
		if diff := cmp.Diff(*want, full.Spec); diff != "" || len(full.Annotations) > 0 {
			t.Errorf("annotations %v, spec after a change in v1alpha1 (-want +got):\n%s", full.Annotations, diff)
		}
		full.Spec.ProtectOperations, full.Spec.ProtectTotalReplicas, full.Spec.IgnoredPodSelector = nil, nil, nil
	})
	env.Read(t, client.ObjectKeyFromObject(full), alpha)
	if len(alpha.Annotations) > 0 {
		t.Errorf("fields that were cleared are annotations %v", alpha.Annotations)
	}
}

// A manifest of v1alpha1 that is applied again without an annotation clears the field, and an
// owner of the annotation is an owner of the field.
func TestABudgetIsAppliedOnTheServer(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	apply := func(owner, version, annotations, spec string) error {
		o := &pub{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
		text := fmt.Sprintf(`{"apiVersion":"policy.kruise.io/%s","kind":"PodUnavailableBudget","metadata":{"name":"web","annotations":{%s}},
			"spec":{%s}}`, version, annotations, spec)
		var object client.Object = o
		if version == "v1alpha1" {
			object = &formerPub{ObjectMeta: o.ObjectMeta}
		}
		return env.Client.Patch(t.Context(), object, client.RawPatch(types.ApplyPatchType, []byte(text)), client.FieldOwner(owner))
	}
	operations := func() []policyv1beta1.Operation {
		var b pub
		env.Read(t, client.ObjectKey{Namespace: ns, Name: "web"}, &b)
		return b.Spec.ProtectOperations
	}
	const spec = `"selector":{"matchLabels":{"app":"web"}},"maxUnavailable":1`
	if err := apply("gitops", "v1alpha1", `"kruise.io/pub-protect-operations":"DELETE"`, spec); err != nil {
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, ofSelector(ns, "web"))
	if diff := cmp.Diff([]policyv1beta1.Operation{"DELETE"}, operations()); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	if err := apply("person", "v1beta1", "", `"selector":{"matchLabels":{"app":"web"}},"protectOperations":["EVICT"]`); !apierrors.IsConflict(err) {
		t.Errorf("another owner changes the field: %v, want a conflict", err)
	}
	if err := apply("gitops", "v1alpha1", "", spec); err != nil {
		t.Fatal(err)
	}
	if got := operations(); len(got) > 0 {
		t.Errorf("operations %v, want none after the annotation was left out", got)
	}
}

func TestTheStatusOfABudgetIsReadInBothVersions(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	b := ofSelector(ns, "web")
	env.Create(t, b)
	b.Status = policyv1beta1.PodUnavailableBudgetStatus{
		ObservedGeneration: 1, UnavailableAllowed: 1, CurrentAvailable: 3, DesiredAvailable: 2, TotalReplicas: 3,
		DisruptedPods: map[string]metav1.Time{"web-0": metav1.Now().Rfc3339Copy()},
		Decisions:     []policyv1beta1.Decision{{Time: metav1.Now().Rfc3339Copy(), Pod: "web-0", Vector: "evict", Verdict: "Allowed"}},
		Conditions: []metav1.Condition{{
			Type: policyv1beta1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now().Rfc3339Copy(),
		}},
	}
	want := b.Status.DeepCopy()
	if err := env.Client.Status().Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	var alpha formerPub
	env.Read(t, client.ObjectKeyFromObject(b), &alpha)
	if diff := cmp.Diff(*want, alpha.Status, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("status in v1alpha1 (-want +got):\n%s", diff)
	}
}

// A tenant whose budget has as many annotations as there may be ends no list request.
func TestEveryBudgetCanBeListedInBothVersions(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	most := make([]byte, policyv1alpha1.MaxAnnotations-1)
	for i := range most {
		most[i] = '"' // each takes two bytes in JSON
	}
	full := ofTarget(ns, "full")
	full.Annotations = map[string]string{"a": string(most)}
	env.Create(t, full)
	for _, change := range []func(){
		func() { full.Spec.ProtectTotalReplicas = new(int32(7)) },
		func() {
			full.Annotations = map[string]string{policyv1alpha1.AnnotationBesideFields: string(most[:len(most)-40])}
		},
		func() {
			full.Spec.ProtectTotalReplicas = new(int32(7))
			full.Annotations = map[string]string{policyv1alpha1.AnnotationProtectTotalReplicas: string(most[:len(most)/2])}
		},
	} {
		env.Read(t, client.ObjectKeyFromObject(full), full)
		change()
		_ = env.Client.Update(t.Context(), full) // refused or not
		for _, list := range []client.ObjectList{&policyv1alpha1.PodUnavailableBudgetList{}, &policyv1beta1.PodUnavailableBudgetList{}} {
			if err := env.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
				t.Errorf("%T: %v", list, err)
			}
		}
	}
}
