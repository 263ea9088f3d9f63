package testenv

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// AsFormer returns the context of a request whose client sends objects of v1alpha1.
func AsFormer(ctx context.Context) context.Context {
	kind := &metav1.GroupVersionKind{Version: "v1alpha1"}
	return admission.NewContextWithRequest(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{RequestKind: kind}})
}

// Hub fills in an object of v1alpha1 as the API server sends it to a webhook.
func Hub[H conversion.Hub](t *testing.T, o conversion.Convertible, into H) H {
	t.Helper()
	if err := o.ConvertTo(into); err != nil {
		t.Fatal(err)
	}
	return into
}

// Refusal returns an error where an answer is not a refusal that names a field.
func Refusal(answer error, field string) error {
	if !apierrors.IsInvalid(answer) || !strings.Contains(answer.Error(), field) {
		return fmt.Errorf("answer %w, want a refusal that names %s", answer, field)
	}
	return nil
}
