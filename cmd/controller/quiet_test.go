package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWhatIsLoggedAsAnError(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	conflict, missing := apierrors.NewConflict(resource, "a", errors.New("changed")), apierrors.NewNotFound(resource, "a")
	ending := apierrors.NewForbidden(resource, "a", errors.New("the namespace ends"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	cases := map[string]struct {
		logger string
		err    error
		values []any
		want   bool
	}{
		"a conflict":                           {"x", fmt.Errorf("update: %w", conflict), nil, false},
		"what is missing":                      {"x", missing, nil, true},
		"what the certificates miss":           {certificateLogger, missing, nil, false},
		"a certificate that is empty yet":      {certificateLogger, errors.New("Cert secret is not well-formed, missing ca.crt"), nil, false},
		"another failure of the certificates":  {certificateLogger, errors.New("no space"), nil, true},
		"a named kind that is not served":      {"cache", missing, []any{"type", metadataType}, false},
		"a kind of Limpet that is not served":  {"cache", missing, []any{"type", "*v1beta1.PersistentPodState"}, true},
		"a named kind that may not be watched": {"cache", apierrors.NewForbidden(resource, "", errors.New("no")), []any{"type", metadataType}, true},
		"an object in a namespace that ends":   {"events", ending, nil, false},
		"no error at all":                      {"x", nil, nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var lines []string
			log := quiet(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
			log.WithName(tc.logger).WithName("deeper").WithValues("k", "v").Error(tc.err, "message", tc.values...)
			if len(lines) != 1 || !strings.Contains(lines[0], "message") {
				t.Fatalf("lines %q, want one", lines)
			}
			if got := !strings.Contains(lines[0], `"level"=`); got != tc.want {
				t.Errorf("an error: %t, want %t: %s", got, tc.want, lines[0])
			}
		})
	}
}
