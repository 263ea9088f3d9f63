package spread

import (
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// PatchOf returns what a subset adds to its pods. match is the value of the annotation with the
// pod's spread and subset.
func PatchOf(s Subset, match string) podpatch.Patch {
	expressions, fields := s.required()
	return podpatch.Patch{
		Annotations: map[string]string{appsv1beta1.AnnotationMatchedSpread: match},
		Required:    expressions, RequiredFields: fields, Preferred: s.Preferred,
		Tolerations: s.Tolerations, Strategic: s.Patch,
	}
}
