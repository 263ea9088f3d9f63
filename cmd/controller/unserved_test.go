package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// TestTheUnservedVersionHasTheMetadata converts as Kubernetes 1.30 asks: from each version into the one that no client gets.
func TestTheUnservedVersionHasTheMetadata(t *testing.T) {
	convert, err := converter(features(Default()), conversion.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for kind, group := range map[string]string{
		"PersistentPodState": "apps.kruise.io", "WorkloadSpread": "apps.kruise.io", "PodUnavailableBudget": "policy.kruise.io",
	} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			t.Run(kind+" "+version, func(t *testing.T) {
				object := func(version, more string) string {
					return fmt.Sprintf(`{"apiVersion":"%s/%s","kind":%q,"metadata":{"name":"a","namespace":"n","uid":"u","labels":{"l":"1"}}%s}`, group, version, kind, more)
				}
				body := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1","desiredAPIVersion":"%s/limpet","objects":[%s]}}`,
					group, object(version, `,"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"s"}}`))
				w := httptest.NewRecorder()
				convert.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", strings.NewReader(body)))
				var review apiextensionsv1.ConversionReview
				if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil || len(review.Response.ConvertedObjects) != 1 {
					t.Fatalf("answer %s, %v", w.Body, err)
				}
				var got, want map[string]any
				if err := json.Unmarshal(review.Response.ConvertedObjects[0].Raw, &got); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal([]byte(object("limpet", "")), &want); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("object (-want +got):\n%s", diff)
				}
			})
		}
	}
}
