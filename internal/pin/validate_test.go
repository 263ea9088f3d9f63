package pin_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// TestLimitsAreThoseOfTheAPI keeps an object from being generated that the API refuses.
func TestLimitsAreThoseOfTheAPI(t *testing.T) {
	cases := map[string]struct {
		path []string
		of   func(n int) *appsv1beta1.PersistentPodState
	}{
		"required keys": {[]string{"requiredPersistentTopology", "keys"}, func(n int) *appsv1beta1.PersistentPodState {
			return testenv.APersistentPodState("web").Requires(keys(n)...).PersistentPodState
		}},
		"preferred keys": {[]string{"preferredPersistentTopology", "[]", "preference", "keys"}, func(n int) *appsv1beta1.PersistentPodState {
			return testenv.APersistentPodState("web").Prefers(1, keys(n)...).PersistentPodState
		}},
		"preferred terms": {[]string{"preferredPersistentTopology"}, func(n int) *appsv1beta1.PersistentPodState {
			s := testenv.APersistentPodState("web")
			for _, key := range keys(n) {
				s = s.Prefers(1, key)
			}
			return s.PersistentPodState
		}},
		"annotations": {[]string{"persistentPodAnnotations"}, func(n int) *appsv1beta1.PersistentPodState {
			s := testenv.APersistentPodState("web").Requires(hostname).PersistentPodState
			for _, key := range keys(n) {
				s.Spec.PersistentPodAnnotations = append(s.Spec.PersistentPodAnnotations, appsv1beta1.PersistentPodAnnotation{Key: key})
			}
			return s
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			limit := maxItems(t, tc.path)
			if errs := pin.Validate(tc.of(limit), nil, workload.Kinds{}); len(errs) > 0 {
				t.Errorf("%d of them: %v", limit, errs)
			}
			if errs := pin.Validate(tc.of(limit+1), nil, workload.Kinds{}); len(errs) != 1 {
				t.Errorf("%d of them: %v, want one refusal", limit+1, errs)
			}
		})
	}
}

func keys(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("example.com/k%d", i))
	}
	return out
}

// maxItems is what the CRD allows at a place in the spec.
func maxItems(t *testing.T, path []string) int {
	t.Helper()
	text, err := os.ReadFile("../../deploy/crds/apps.kruise.io_persistentpodstates.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	for _, version := range crd.Spec.Versions {
		if version.Name != appsv1beta1.GroupVersion.Version {
			continue
		}
		schema := version.Schema.OpenAPIV3Schema.Properties["spec"]
		for _, step := range path {
			if step == "[]" {
				schema = *schema.Items.Schema
				continue
			}
			schema = schema.Properties[step]
		}
		return int(*schema.MaxItems)
	}
	t.Fatal("no such version")
	return 0
}

// A misspelt annotation of an object does nothing, and is told when it is written.
func TestMisspeltAnnotationsOfAnObjectAreTold(t *testing.T) {
	state := func(annotations map[string]string) *appsv1beta1.PersistentPodState {
		s := testenv.APersistentPodState("web").Requires(hostname).PersistentPodState
		s.Annotations = annotations
		return s
	}
	plain, wrong := state(nil), state(map[string]string{"limpet.dev/release-afer": "5m", "example.com/other": "x"})
	if got := pin.Warnings(wrong); len(got) != 1 || !strings.Contains(got[0], "limpet.dev/release-afer") {
		t.Errorf("warnings %q, want one of the misspelt annotation", got)
	}
	right := state(map[string]string{
		pin.AnnotationReleaseAfter: "5m", pin.AnnotationForget: "u", pin.AnnotationCarried: pin.AnnotationReleaseAfter, appsv1beta1.AnnotationInjected: "x",
	})
	if got := pin.Warnings(right); len(got) > 0 {
		t.Errorf("warnings %q, want none", got)
	}
	if pin.Unchanged(plain, wrong) || !pin.Unchanged(plain, state(map[string]string{pin.AnnotationForget: "u", "example.com/other": "x"})) {
		t.Error("an annotation that may be misspelt is judged again, and others are not")
	}
}
