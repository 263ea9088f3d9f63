// Package review has what the features share when they judge objects of users: refusals in the words of
// the version that a client sent, errors that an object had before, and the label of its namespace.
package review

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
)

// IsFormer reports whether the client sent an object of v1alpha1. The API server sends it as v1beta1.
func IsFormer(ctx context.Context) bool {
	request, err := admission.RequestFromContext(ctx)
	return err == nil && request.RequestKind != nil && request.RequestKind.Version == v1alpha1.GroupVersion.Version
}

// AsSent gives fields the names that they have in the version of the client.
func AsSent(ctx context.Context, former *strings.Replacer, errs field.ErrorList) field.ErrorList {
	if IsFormer(ctx) {
		for _, e := range errs {
			e.Field = former.Replace(e.Field)
		}
	}
	return errs
}

// Invalid is the refusal that names the wrong fields of an object; nil without any.
func Invalid(kind schema.GroupVersionKind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(kind.GroupKind(), name, errs)
}

// mostKnown bounds the warnings of what was wrong before.
const mostKnown = 4

// Compare tells the errors that a change adds from those that an object had before.
func Compare(before, after field.ErrorList) (added field.ErrorList, known admission.Warnings) {
	was := map[string]bool{}
	for _, e := range before {
		was[e.Error()] = true
	}
	for _, e := range after {
		switch {
		case !was[e.Error()]:
			added = append(added, e)
		case len(known) < mostKnown:
			known = append(known, Short(e.Error()))
		}
	}
	return added, known
}

// Crowded tells a client to try again where too many reads wait.
func Crowded(err error) error {
	if errors.Is(err, fair.ErrCrowded) {
		return apierrors.NewTooManyRequests(err.Error(), 1)
	}
	return err
}

// Limits of a selector, which is compared with the labels of each pod of its namespace.
const (
	MostRequirements = 64
	MostValues       = 256 // of all expressions together
)

// Selector refuses a selector that cannot be read, or that is too large.
func Selector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if n := len(s.MatchLabels) + len(s.MatchExpressions); n > MostRequirements {
		return field.ErrorList{field.TooMany(path, n, MostRequirements)}
	}
	values := 0
	for i, r := range s.MatchExpressions {
		if values += len(r.Values); values > MostValues {
			return field.ErrorList{field.TooMany(path.Child("matchExpressions").Index(i).Child("values"), values, MostValues)}
		}
	}
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)
}

// Annotation is the path of an annotation.
func Annotation(key string) *field.Path { return field.NewPath("metadata", "annotations").Key(key) }

// Short keeps a text of a user within a line.
func Short(text string) string {
	const most = 200
	if len(text) > most {
		return fmt.Sprintf("%.*s…", most, text)
	}
	return text
}
