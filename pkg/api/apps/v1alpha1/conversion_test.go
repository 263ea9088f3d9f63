package v1alpha1_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	"github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	"github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

func TestNothingIsLostOfRandomObjects(t *testing.T) {
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

// filler leaves unset what the API server sets itself and refuses to have changed.
func filler(f *randfill.Filler) *randfill.Filler {
	return f.NilChance(.3).NumElements(1, 3).Funcs(func(m *metav1.ObjectMeta, c randfill.Continue) {
		c.Fill(&m.Name)
		c.Fill(&m.Namespace)
		c.Fill(&m.Labels)
		c.Fill(&m.Annotations)
		c.Fill(&m.OwnerReferences)
		c.Fill(&m.Finalizers)
	}, func(l *[]string, c randfill.Continue) { // a missing list of keys is no valid object
		*l = make([]string, 1+c.Intn(4))
		for i := range *l {
			c.Fill(&(*l)[i])
		}
	})
}

func roundTrip(t *testing.T, fill *randfill.Filler) {
	t.Helper()
	var alpha, alphaAgain v1alpha1.PersistentPodState
	var beta, betaAgain v1beta1.PersistentPodState
	fill.Fill(&alpha)
	alpha.TypeMeta = metav1.TypeMeta{}
	mustConvert(t, alpha.DeepCopy().ConvertTo(&beta))
	mustConvert(t, alphaAgain.ConvertFrom(beta.DeepCopy()))
	if diff := cmp.Diff(alpha, alphaAgain); diff != "" {
		t.Fatalf("v1alpha1 there and back (-want +got):\n%s", diff)
	}
	// The two differ in the name of one field and in nothing else.
	want := strings.ReplaceAll(encode(t, alpha), `"nodeTopologyKeys":`, `"keys":`)
	if diff := cmp.Diff(want, encode(t, beta)); diff != "" {
		t.Fatalf("v1alpha1 as v1beta1 (-want +got):\n%s", diff)
	}
	fill.Fill(&beta)
	beta.TypeMeta, alphaAgain = metav1.TypeMeta{}, v1alpha1.PersistentPodState{}
	mustConvert(t, alphaAgain.ConvertFrom(beta.DeepCopy()))
	mustConvert(t, alphaAgain.ConvertTo(&betaAgain))
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

func encode(t *testing.T, o any) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
