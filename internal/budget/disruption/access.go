package disruption

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"

	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// mayExempt reports whether the user of a request may update a budget: such a user could loosen the budget as well.
func (j *Judge) mayExempt(ctx context.Context, r Request, from *policyv1beta1.PodUnavailableBudget) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: r.Info.Username, UID: r.Info.UID, Groups: r.Info.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: from.Namespace, Verb: "update", Group: policyv1beta1.GroupVersion.Group, Resource: "podunavailablebudgets", Name: from.Name,
		},
	}}
	for key, value := range r.Info.Extra {
		review.Spec.Extra[key] = authorizationv1.ExtraValue(value)
	}
	if err := j.access.Create(ctx, review); err != nil {
		return false, fmt.Errorf("ask whether %s may update budget %s: %w", r.Info.Username, from.Name, err)
	}
	return review.Status.Allowed, nil
}
