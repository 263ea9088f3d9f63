package v1alpha1_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	"github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

func TestNothingIsLostOfRandomSpreads(t *testing.T) {
	fill := spreadFiller(randfill.NewWithSeed(1))
	for range 500 {
		roundTripSpread(t, fill)
	}
}

func FuzzSpreadConversion(f *testing.F) {
	for _, seed := range []string{"", "limpet", strings.Repeat("both ways ", 200)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { roundTripSpread(t, spreadFiller(randfill.NewFromGoFuzz(data))) })
}

// spreadFiller also fills patches, of which the API server reads JSON alone.
func spreadFiller(f *randfill.Filler) *randfill.Filler {
	patches := []string{"", `{}`, `{"metadata":{"labels":{"a":"b"}}}`, `{"spec":{"containers":[{"name":"c","env":[]}],"$patch":"merge"}}`}
	return filler(f).Funcs(func(p *runtime.RawExtension, c randfill.Continue) {
		if text := patches[c.Intn(len(patches))]; text != "" {
			p.Raw = []byte(text)
		}
	})
}

func roundTripSpread(t *testing.T, fill *randfill.Filler) {
	t.Helper()
	var alpha, alphaAgain v1alpha1.WorkloadSpread
	var beta, betaAgain v1beta1.WorkloadSpread
	fill.Fill(&alpha)
	alpha.TypeMeta = metav1.TypeMeta{}
	mustConvert(t, alpha.DeepCopy().ConvertTo(&beta))
	mustConvert(t, alphaAgain.ConvertFrom(beta.DeepCopy()))
	if diff := cmp.Diff(alpha, alphaAgain); diff != "" {
		t.Fatalf("v1alpha1 there and back (-want +got):\n%s", diff)
	}
	fill.Fill(&beta)
	beta.TypeMeta, alphaAgain = metav1.TypeMeta{}, v1alpha1.WorkloadSpread{}
	mustConvert(t, alphaAgain.ConvertFrom(beta.DeepCopy()))
	// The specs differ in the names of two fields and in nothing else. The status has the same
	// names in both.
	want := strings.NewReplacer(`"requiredNodeSelector":`, `"requiredNodeSelectorTerm":`,
		`"preferredNodeSelector":`, `"preferredNodeSelectorTerms":`).Replace(encode(t, beta.Spec))
	if diff := cmp.Diff(want, encode(t, alphaAgain.Spec)); diff != "" {
		t.Fatalf("v1beta1 as v1alpha1 (-want +got):\n%s", diff)
	}
	var read v1beta1.WorkloadSpreadStatus
	if err := json.Unmarshal([]byte(encode(t, alphaAgain.Status)), &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encode(t, beta.Status), encode(t, read)); diff != "" {
		t.Fatalf("status of v1beta1 as v1alpha1 (-want +got):\n%s", diff)
	}
	mustConvert(t, alphaAgain.ConvertTo(&betaAgain))
	if diff := cmp.Diff(beta, betaAgain); diff != "" {
		t.Fatalf("v1beta1 there and back (-want +got):\n%s", diff)
	}
}
