package disruption

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/limpet-io/limpet/internal/budget"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// mayExempt reports whether the user of a request may update a budget: such a user could loosen the budget as well.
func (j *Judge) mayExempt(ctx context.Context, r Request, from *covering) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: r.Info.Username, UID: r.Info.UID, Groups: r.Info.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: from.object.Namespace, Verb: "update", Group: policyv1beta1.GroupVersion.Group, Resource: "podunavailablebudgets", Name: from.object.Name,
		},
	}}
	if of := from.divided; of != nil {
		attributes := review.Spec.ResourceAttributes
		attributes.Group, attributes.Resource, attributes.Name = limpetv1alpha1.GroupVersion.Group, "distributedpoddisruptionbudgets", of.Name
	}
	for key, value := range r.Info.Extra {
		review.Spec.Extra[key] = authorizationv1.ExtraValue(value)
	}
	if err := j.access.Create(ctx, review); err != nil {
		return false, fmt.Errorf("ask whether %s may update %s: %w", r.Info.Username, budget.Title(from.object.Name), err)
	}
	return review.Status.Allowed, nil
}
