package validate

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// formerNames gives fields their names of v1alpha1.
var formerNames = strings.NewReplacer(
	"Topology.keys", "Topology.nodeTopologyKeys", ".preference.keys", ".preference.nodeTopologyKeys",
	"].requiredNodeSelector", "].requiredNodeSelectorTerm", "].preferredNodeSelector", "].preferredNodeSelectorTerms",
	"spec.ignoredPodSelector", annotation(v1alpha1.AnnotationIgnoredPodSelector).String(),
)

// isFormer reports whether the client sent an object of v1alpha1. The API server sends it as v1beta1.
func isFormer(ctx context.Context) bool {
	request, err := admission.RequestFromContext(ctx)
	return err == nil && request.RequestKind != nil && request.RequestKind.Version == v1alpha1.GroupVersion.Version
}

// asSent gives fields the names that they have in the version of the client.
func asSent(ctx context.Context, errs field.ErrorList) field.ErrorList {
	if isFormer(ctx) {
		for _, e := range errs {
			e.Field = formerNames.Replace(e.Field)
		}
	}
	return errs
}

// judgeFields judges the annotations of a budget that are fields of v1beta1. Those that the conversion could read are
// fields by now.
func judgeFields(b *policyv1beta1.PodUnavailableBudget) (errs field.ErrorList) {
	for _, key := range fieldAnnotations {
		value, set := b.Annotations[key]
		if !set {
			continue
		}
		if err := v1alpha1.Parse(key, value, &policyv1beta1.PodUnavailableBudgetSpec{}); err != nil {
			errs = append(errs, field.Invalid(annotation(key), short(value), err.Error()))
		}
	}
	return errs
}
