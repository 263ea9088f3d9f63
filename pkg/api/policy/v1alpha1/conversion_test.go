package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	"github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	"github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

func TestNothingIsLostOfRandomBudgets(t *testing.T) {
	fill := filler(randfill.NewWithSeed(1))
	for range 4000 {
		roundTrip(t, fill)
	}
}

func FuzzConversion(f *testing.F) {
	for _, seed := range []string{"", "limpet", strings.Repeat("both ways ", 200)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { roundTrip(t, filler(randfill.NewFromGoFuzz(data))) })
}

// keys and values are those that conversions look at, and others. What is written into
// AnnotationBesideFields may again look like what a conversion writes there.
var keys = []string{
	v1alpha1.AnnotationProtectOperations, v1alpha1.AnnotationProtectTotalReplicas, v1alpha1.AnnotationIgnoredPodSelector,
	v1alpha1.AnnotationBesideFields, v1beta1.AnnotationVectors, "owner",
}

var values = []string{
	"DELETE", "EVICT,DELETE", "DELETE, EVICT", "delete", "DELETE,DELETE", "", "10", "0", "-1", "+3", "03", "99999999999", "x",
	`{"matchLabels":{"app":"web"}}`, `{"matchLabels": {"app":"web"}}`, `{}`, `null`, `{`, `[]`, `{"a":"b"}`, `{"owner":"x"}`,
}

func value(c randfill.Continue, depth int) string {
	if depth == 0 || c.Intn(3) > 0 {
		return values[c.Intn(len(values))]
	}
	nested := map[string]string{}
	for range c.Intn(3) {
		nested[keys[c.Intn(len(keys))]] = value(c, depth-1)
	}
	text, err := json.Marshal(nested)
	if err != nil {
		panic(err) // a map of strings
	}
	return string(text)
}

// filler leaves unset what the API server sets itself and refuses to have changed, and fills
// fields of v1beta1 with what the API server accepts.
func filler(f *randfill.Filler) *randfill.Filler {
	return f.NilChance(.3).NumElements(1, 3).Funcs(func(m *metav1.ObjectMeta, c randfill.Continue) {
		c.Fill(&m.Name)
		c.Fill(&m.Namespace)
		c.Fill(&m.Labels)
		c.Fill(&m.Finalizers)
		for range c.Intn(5) {
			metav1.SetMetaDataAnnotation(m, keys[c.Intn(len(keys))], value(c, 3))
		}
	}, func(o *[]v1beta1.Operation, c randfill.Continue) {
		all := []v1beta1.Operation{v1beta1.OperationDelete, v1beta1.OperationUpdate, v1beta1.OperationEvict, v1beta1.OperationResize}
		c.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		*o = all[:1+c.Intn(4)]
	}, func(s *v1beta1.PodUnavailableBudgetSpec, c randfill.Continue) {
		c.FillNoCustom(s)
		if s.ProtectTotalReplicas != nil {
			*s.ProtectTotalReplicas = 1 + c.Int31n(1<<31-1)
		}
	})
}

func roundTrip(t *testing.T, fill *randfill.Filler) {
	t.Helper()
	var alpha, alphaAgain v1alpha1.PodUnavailableBudget
	var beta, betaAgain v1beta1.PodUnavailableBudget
	fill.Fill(&alpha)
	alpha.TypeMeta = metav1.TypeMeta{}
	mustConvert(t, alpha.DeepCopy().ConvertTo(&beta))
	mustConvert(t, alphaAgain.ConvertFrom(beta.DeepCopy()))
	if diff := cmp.Diff(alpha, alphaAgain); diff != "" {
		t.Fatalf("v1alpha1 there and back (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(alpha.Status, beta.Status); diff != "" {
		t.Fatalf("status in the other version (-want +got):\n%s", diff)
	}

	beta, alphaAgain = v1beta1.PodUnavailableBudget{}, v1alpha1.PodUnavailableBudget{}
	fill.Fill(&beta)
	beta.TypeMeta = metav1.TypeMeta{}
	mustConvert(t, alphaAgain.ConvertFrom(beta.DeepCopy()))
	mustConvert(t, alphaAgain.DeepCopy().ConvertTo(&betaAgain))
	if diff := cmp.Diff(beta, betaAgain); diff != "" {
		t.Fatalf("v1beta1 there and back (-want +got):\n%s", diff)
	}
}

func mustConvert(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Annotations of OpenKruise become fields, and an annotation that cannot be read stays.
func TestAnnotationsBecomeFields(t *testing.T) {
	type spec = v1beta1.PodUnavailableBudgetSpec
	cases := map[string]struct {
		alpha, beta map[string]string
		spec        spec
	}{
		"operations": {
			alpha: map[string]string{"kruise.io/pub-protect-operations": "DELETE,RESIZE"},
			spec:  spec{ProtectOperations: []v1beta1.Operation{"DELETE", "RESIZE"}},
		},
		"the size": {
			alpha: map[string]string{"pub.kruise.io/protect-total-replicas": "7", "owner": "x"},
			beta:  map[string]string{"owner": "x"},
			spec:  spec{ProtectTotalReplicas: new(int32(7))},
		},
		"pods that are not protected": {
			alpha: map[string]string{"limpet.dev/ignored-pod-selector": `{"matchLabels":{"a":"b"}}`},
			spec:  spec{IgnoredPodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
		},
		"what cannot be read": {
			alpha: map[string]string{"kruise.io/pub-protect-operations": "DELETE,EVERYTHING", "pub.kruise.io/protect-total-replicas": "many"},
			beta:  map[string]string{"kruise.io/pub-protect-operations": "DELETE,EVERYTHING", "pub.kruise.io/protect-total-replicas": "many"},
		},
		"an annotation of v1beta1, which means nothing there, nor here": {
			alpha: map[string]string{"limpet.dev/v1beta1-annotations": `{"kruise.io/pub-protect-operations":"EVICT"}`},
			beta:  map[string]string{"kruise.io/pub-protect-operations": "EVICT"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var beta v1beta1.PodUnavailableBudget
			alpha := &v1alpha1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Annotations: tc.alpha}}
			mustConvert(t, alpha.ConvertTo(&beta))
			if diff := cmp.Diff(v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Annotations: tc.beta}, Spec: tc.spec}, beta); diff != "" {
				t.Errorf("as v1beta1 (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClearedFieldsStayCleared(t *testing.T) {
	alpha := &v1alpha1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.AnnotationProtectOperations: "DELETE", v1alpha1.AnnotationProtectTotalReplicas: "7",
		v1alpha1.AnnotationIgnoredPodSelector: `{"matchLabels":{"a":"b"}}`,
	}}}
	var beta v1beta1.PodUnavailableBudget
	mustConvert(t, alpha.ConvertTo(&beta))
	beta.Spec = v1beta1.PodUnavailableBudgetSpec{}
	var again v1alpha1.PodUnavailableBudget
	mustConvert(t, again.ConvertFrom(&beta))
	if diff := cmp.Diff(v1alpha1.PodUnavailableBudget{}, again); diff != "" {
		t.Errorf("cleared in v1beta1, read as v1alpha1 (-want +got):\n%s", diff)
	}
}

// The API server refuses an answer with more annotations than it allows, and then every list.
func TestAnnotationsStayWithinWhatTheAPIServerAllows(t *testing.T) {
	full := map[string]string{"a": strings.Repeat("x", v1alpha1.MaxAnnotations-1)}
	beta := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Annotations: full}}
	beta.Spec.ProtectTotalReplicas = new(int32(7))
	var alpha v1alpha1.PodUnavailableBudget
	mustConvert(t, alpha.ConvertFrom(beta))
	if got := v1alpha1.Size(alpha.Annotations); got > v1alpha1.MaxAnnotations {
		t.Errorf("%d bytes of annotations", got)
	}
	if size, err := v1alpha1.SizeOf(beta); err != nil || size <= v1alpha1.MaxAnnotations {
		t.Errorf("the object counts %d bytes (%v), want more than the limit so that the webhook refuses it", size, err)
	}
}

// What was hidden in what was hidden is read in a bounded number of steps.
func TestAnnotationsInAnnotationsAreBounded(t *testing.T) {
	text := "x"
	for {
		next, err := json.Marshal(map[string]string{v1alpha1.AnnotationBesideFields: text})
		if err != nil {
			t.Fatal(err)
		}
		if len(next) > v1alpha1.MaxAnnotations-100 {
			break
		}
		text = string(next)
	}
	alpha := &v1alpha1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationBesideFields: text}}}
	var beta v1beta1.PodUnavailableBudget
	var again v1alpha1.PodUnavailableBudget
	mustConvert(t, alpha.ConvertTo(&beta))
	mustConvert(t, again.ConvertFrom(&beta))
	if diff := cmp.Diff(alpha.Annotations, again.Annotations); diff != "" {
		t.Errorf("there and back (-want +got):\n%s", diff)
	}
	if n := testing.AllocsPerRun(1, func() { mustConvert(t, alpha.ConvertTo(&beta)) }); n > 20000 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseNamesTheRemedy(t *testing.T) {
	cases := map[string]struct{ key, value, want string }{
		"an unknown operation": {v1alpha1.AnnotationProtectOperations, "PATCH", "DELETE,UPDATE,EVICT,RESIZE"},
		"blanks":               {v1alpha1.AnnotationProtectOperations, "DELETE, EVICT", "without blanks"},
		"a size of none":       {v1alpha1.AnnotationProtectTotalReplicas, "0", "1 or more"},
		"a size in words":      {v1alpha1.AnnotationProtectTotalReplicas, "ten", "such as 10"},
		"another form of JSON": {v1alpha1.AnnotationIgnoredPodSelector, `{"matchLabels": {"a":"b"}}`, `{"matchLabels":{"a":"b"}}`},
		"a long selector":      {v1alpha1.AnnotationIgnoredPodSelector, `{ "matchLabels":{"a":"` + strings.Repeat("b", 300) + `"}}`, "without blanks"},
		"no JSON":              {v1alpha1.AnnotationIgnoredPodSelector, "a=b", "such as {"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := v1alpha1.Parse(tc.key, tc.value, &v1beta1.PodUnavailableBudgetSpec{})
			if err == nil || !strings.Contains(fmt.Sprint(err), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
