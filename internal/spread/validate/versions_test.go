package validate_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// aSpread is what users of OpenKruise apply.
const aSpread = `
apiVersion: apps.kruise.io/v1alpha1
kind: WorkloadSpread
metadata:
  name: workloadspread-demo
spec:
  targetRef:
    apiVersion: apps/v1          # or apps.kruise.io/v1alpha1
    kind: Deployment             # or CloneSet
    name: workload-xxx
  subsets:
    - name: subset-a
      requiredNodeSelectorTerm:
        matchExpressions:
          - key: topology.kubernetes.io/zone
            operator: In
            values: [zone-a]
      maxReplicas: 10            # or 30%
    - name: subset-b
      requiredNodeSelectorTerm:
        matchExpressions:
          - key: topology.kubernetes.io/zone
            operator: In
            values: [zone-b]
`

func TestASpreadOfOpenKruisesUsersAppliesAsItIs(t *testing.T) {
	serve(t)
	var sample formerSpread
	if err := utilyaml.UnmarshalStrict([]byte(aSpread), &sample); err != nil {
		t.Fatal(err)
	}
	sample.Namespace = env.Namespace(t)
	want := sample.DeepCopy()
	c, heard := env.Listen(t)
	if err := c.Create(t.Context(), &sample); err != nil {
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, &sample)
	if err := heard.Names("spec"); err == nil {
		t.Error("the sample is warned of")
	}
	var alpha formerSpread
	var beta spread
	env.Read(t, client.ObjectKeyFromObject(&sample), &alpha)
	env.Read(t, client.ObjectKeyFromObject(&sample), &beta)
	if diff := cmp.Diff(want.Spec, alpha.Spec); diff != "" {
		t.Errorf("as v1alpha1 (-want +got):\n%s", diff)
	}
	wantBeta := appsv1beta1.WorkloadSpreadSpec{
		TargetReference: appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "workload-xxx"},
		Subsets: []subset{
			{Name: "subset-a", RequiredNodeSelector: inZone("zone-a"), MaxReplicas: number(10)},
			{Name: "subset-b", RequiredNodeSelector: inZone("zone-b")},
		},
	}
	if diff := cmp.Diff(wantBeta, beta.Spec); diff != "" {
		t.Errorf("as v1beta1 (-want +got):\n%s", diff)
	}
}

// What scripts read of kubectl's output is where OpenKruise has it, in both versions.
func TestSpreadsAreShownAsByOpenKruise(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	env.Create(t, ofSubsets(ns, "web", adaptive(&appsv1beta1.AdaptiveSpread{RescheduleCriticalSeconds: new(int32(30))})))
	crd := env.ManifestCRD(t, testenv.ConvertedSpreads)
	if diff := cmp.Diff([]string{"ws"}, crd.Spec.Names.ShortNames); diff != "" {
		t.Errorf("short names (-want +got):\n%s", diff)
	}
	served := slices.DeleteFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Served })
	for _, v := range served {
		names, cells := table(t, v.Name, ns)
		want := []string{"Name", "WorkloadName", "WorkloadKind", "Adaptive"}
		if len(names) < 4 || !slices.Equal(names[:4], want) || names[len(names)-1] != "Age" {
			t.Errorf("%s: columns %q, want first %q and last the age", v.Name, names, want)
			continue
		}
		if diff := cmp.Diff([]any{"web", "web", "Deployment", "Adaptive"}, cells[:4]); diff != "" {
			t.Errorf("%s: cells (-want +got):\n%s", v.Name, diff)
		}
		if v.Subresources == nil || v.Subresources.Status == nil {
			t.Errorf("%s has no status", v.Name)
		}
	}
	if len(served) != 2 {
		t.Errorf("%d versions, want 2", len(served))
	}
}

// table returns the names of the columns and the cells of the one spread of a namespace, as
// kubectl gets them.
func table(t *testing.T, version, ns string) (names []string, cells []any) {
	t.Helper()
	c, err := discovery.NewDiscoveryClientForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.RESTClient().Get().AbsPath("/apis/apps.kruise.io/"+version+"/namespaces/"+ns+"/workloadspreads").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var shown metav1.Table
	if err := json.Unmarshal(text, &shown); err != nil || len(shown.Rows) != 1 {
		t.Fatalf("%d rows, %v", len(shown.Rows), err)
	}
	for _, c := range shown.ColumnDefinitions {
		names = append(names, c.Name)
	}
	return names, shown.Rows[0].Cells
}

// A client of v1alpha1 that reads and writes a spread takes nothing away from it.
func TestASpreadIsChangedInBothVersions(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	full := ofSubsets(ns, "web", prefers(7, *inZone("zone-c")), tolerates(corev1.Toleration{Key: "a", Operator: "Exists"}),
		patch(`{"metadata":{"labels":{"a":"b"}},"spec":{"later":{"x":[1,null]}}}`),
		adaptive(&appsv1beta1.AdaptiveSpread{RescheduleCriticalSeconds: new(int32(30)), RecoverySeconds: new(int32(60)), ReturnPolicy: "WhenRecovered"}),
		func(s *spread) {
			s.Spec.TargetFilter = &appsv1beta1.TargetFilter{ReplicasPathList: []string{"spec.replicas"}}
		})
	env.Create(t, full)
	want := full.Spec.DeepCopy()
	alpha := &formerSpread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	env.Change(t, alpha, func() { alpha.Spec.Subsets[0].MaxReplicas = number(4) })
	want.Subsets[0].MaxReplicas = number(4)
	env.Change(t, full, func() {
		if diff := cmp.Diff(*want, full.Spec); diff != "" {
			t.Errorf("after a change in v1alpha1 (-want +got):\n%s", diff)
		}
		full.Spec.Subsets[0].RequiredNodeSelector, full.Spec.Subsets[0].PreferredNodeSelector = nil, nil
	})
	env.Read(t, client.ObjectKeyFromObject(full), alpha)
	if s := alpha.Spec.Subsets[0]; s.RequiredNodeSelectorTerm != nil || s.PreferredNodeSelectorTerms != nil {
		t.Errorf("fields that were cleared are there: %+v", s)
	}
}

// Subsets are filled in their order, so a manifest that is applied decides it.
func TestTheOrderOfSubsetsIsApplied(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	apply := func(version string, names ...string) {
		t.Helper()
		var subsets []map[string]any
		for _, name := range names {
			subsets = append(subsets, map[string]any{"name": name})
		}
		text, err := json.Marshal(map[string]any{
			"apiVersion": "apps.kruise.io/" + version, "kind": "WorkloadSpread", "metadata": map[string]any{"name": "web"},
			"spec": map[string]any{"targetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "subsets": subsets},
		})
		if err != nil {
			t.Fatal(err)
		}
		var object client.Object = &spread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
		if version == "v1alpha1" {
			object = &formerSpread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
		}
		if err := env.Client.Patch(t.Context(), object, client.RawPatch(types.ApplyPatchType, text), client.FieldOwner("gitops")); err != nil {
			t.Fatal(err)
		}
		var s spread
		env.Read(t, client.ObjectKey{Namespace: ns, Name: "web"}, &s)
		var got []string
		for i := range s.Spec.Subsets {
			got = append(got, s.Spec.Subsets[i].Name)
		}
		if diff := cmp.Diff(names, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for _, names := range [][]string{{"a", "b", "c"}, {"c", "a", "b"}, {"c", "x", "b"}, {"b", "a"}} {
			apply(version, names...)
		}
	}
	env.RemoveAtEnd(t, ofSubsets(ns, "web"))
}

// The status that OpenKruise wrote, and that of Limpet, are read in both versions.
func TestTheStatusOfASpreadIsReadInBothVersions(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	s := ofSubsets(ns, "web")
	env.Create(t, s)
	now := metav1.Now().Rfc3339Copy()
	ofA := appsv1beta1.WorkloadSpreadSubsetStatus{
		Name: "a", Replicas: 2, MissingReplicas: 1, CreatingPods: map[string]metav1.Time{"uid": now}, DeletingPods: map[string]metav1.Time{"web-1": now},
		Conditions: []metav1.Condition{{Type: appsv1beta1.ConditionSchedulable, Status: metav1.ConditionTrue, Reason: "Sufficient", LastTransitionTime: now}},
	}
	s.Status = appsv1beta1.WorkloadSpreadStatus{
		ObservedGeneration: 1, SubsetStatuses: []appsv1beta1.WorkloadSpreadSubsetStatus{ofA, {Name: "b", MissingReplicas: -1}},
		VersionedSubsetStatuses: map[string]appsv1beta1.VersionedSubsets{"5d4c": {ofA}, appsv1beta1.VersionIgnored: {{Name: "b"}}},
		Conditions:              []metav1.Condition{{Type: appsv1beta1.ConditionPlaced, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: now}},
	}
	want := s.Status.DeepCopy()
	if err := env.Client.Status().Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var alpha, again formerSpread
	if err := again.ConvertFrom(&spread{Status: *want}); err != nil {
		t.Fatal(err)
	}
	env.Read(t, client.ObjectKeyFromObject(s), &alpha)
	if diff := cmp.Diff(again.Status, alpha.Status, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("status in v1alpha1 (-want +got):\n%s", diff)
	}
	alpha.Status.SubsetStatuses[0].Conditions[0].Reason = "" // as OpenKruise may write it
	if err := env.Client.Status().Update(t.Context(), &alpha); err != nil {
		t.Fatal(err)
	}
	env.Read(t, client.ObjectKeyFromObject(s), s)
	want.SubsetStatuses[0].Conditions[0].Reason = ""
	if diff := cmp.Diff(*want, s.Status, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("status in v1beta1 (-want +got):\n%s", diff)
	}
	env.Change(t, s, func() { s.Labels = map[string]string{"a": "b"} }) // hinders no other change
}
