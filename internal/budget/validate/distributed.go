package validate

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/mark"
	"github.com/limpet-io/limpet/internal/platform/review"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// DistributedPath is the path of the webhook for DistributedPodDisruptionBudgets.
const DistributedPath = "/validate-distributedpoddisruptionbudget"

// Distributed refuses invalid DistributedPodDisruptionBudgets. Before a valid one is stored, its namespace has
// the label by which requests about pods are sent to the guards.
type Distributed struct{ Namespaces *review.Namespaces }

var distributedKind = limpetv1alpha1.GroupVersion.WithKind("DistributedPodDisruptionBudget")

var _ admission.Validator[*limpetv1alpha1.DistributedPodDisruptionBudget] = (*Distributed)(nil)

// ValidateCreate names every field that is wrong.
func (w *Distributed) ValidateCreate(ctx context.Context, b *limpetv1alpha1.DistributedPodDisruptionBudget) (admission.Warnings, error) {
	warnings := append(useless(budget.Undivided(b)), unreachable(b)...)
	if err := review.Invalid(distributedKind, b.Name, judgeDistributed(b)); err != nil {
		return warnings, err
	}
	return warnings, w.Namespaces.LabelOf(ctx, mark.Budgets, distributedKind, b)
}

// ValidateUpdate judges only changes.
func (w *Distributed) ValidateUpdate(_ context.Context, before, after *limpetv1alpha1.DistributedPodDisruptionBudget) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) && maps.Equal(before.Annotations, after.Annotations) {
		return nil, nil
	}
	added, known := review.Compare(judgeDistributed(before), judgeDistributed(after))
	warnings := append(append(known, useless(budget.Undivided(after))...), unreachable(after)...)
	return warnings, review.Invalid(distributedKind, after.Name, added)
}

// ValidateDelete allows every deletion.
func (w *Distributed) ValidateDelete(context.Context, *limpetv1alpha1.DistributedPodDisruptionBudget) (admission.Warnings, error) {
	return nil, nil
}

// judgeDistributed returns what is wrong beyond the rules of the CRD.
func judgeDistributed(b *limpetv1alpha1.DistributedPodDisruptionBudget) field.ErrorList {
	return judgeBudget(budget.Undivided(b))
}

// unreachable warns of a number that no window reaches.
func unreachable(b *limpetv1alpha1.DistributedPodDisruptionBudget) admission.Warnings {
	least := b.Spec.MinAvailable
	if b.Spec.Groups == nil || b.Spec.Groups.Sliding == nil || least == nil || b.Spec.Groups.Sliding.OrderBy == limpetv1alpha1.OrderLabel {
		return nil
	}
	if size := b.Spec.Groups.Sliding.Size; least.IntValue() >= int(size) {
		return admission.Warnings{fmt.Sprintf("spec.minAvailable: %s of %d pods of a group %s", least, size, nothingGoes)}
	}
	return nil
}
