// Package validate judges PodUnavailableBudgets when they are written.
package validate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/mark"
	"github.com/limpet-io/limpet/internal/platform/review"
	"github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// PodUnavailableBudgetPath is the path of the webhook for PodUnavailableBudgets.
const PodUnavailableBudgetPath = "/validate-podunavailablebudget"

// PodUnavailableBudget refuses invalid PodUnavailableBudgets. Before a valid one is stored, its
// namespace has the label by which requests about pods are sent to the guards.
type PodUnavailableBudget struct {
	// Cached reads the budgets of a namespace.
	Cached     client.Reader
	Namespaces *review.Namespaces
	// Size returns how many pods the workload of a budget has; 0 where that is not known. It is
	// asked for warnings only.
	Size func(context.Context, *policyv1beta1.PodUnavailableBudget) (int32, error)
}

var kind = policyv1beta1.GroupVersion.WithKind("PodUnavailableBudget")

// formerNames gives fields their names of v1alpha1.
var formerNames = strings.NewReplacer("spec.ignoredPodSelector", review.Annotation(v1alpha1.AnnotationIgnoredPodSelector).String())

var _ admission.Validator[*policyv1beta1.PodUnavailableBudget] = (*PodUnavailableBudget)(nil)

// ValidateCreate names every field that is wrong.
func (w *PodUnavailableBudget) ValidateCreate(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) (admission.Warnings, error) {
	var all policyv1beta1.PodUnavailableBudgetList
	if err := w.Cached.List(ctx, &all, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list budgets of namespace %s: %w", b.Namespace, err)
	}
	warnings := slices.Concat(misplaced(ctx, b), useless(b), shared(b, all.Items))
	if err := review.Invalid(kind, b.Name, w.judge(ctx, b)); err != nil {
		return warnings, err
	}
	warnings = append(warnings, w.beyond(ctx, b)...)
	return warnings, w.Namespaces.LabelOf(ctx, mark.Budgets, kind, b)
}

// judge names every field that is wrong, as the client has named it.
func (w *PodUnavailableBudget) judge(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) field.ErrorList {
	errs := judgeBudget(b)
	if review.IsFormer(ctx) {
		errs = append(errs, judgeFields(b)...)
	}
	return review.AsSent(ctx, formerNames, errs)
}

// ValidateUpdate judges only changes: what was wrong before a rule came is answered with a
// warning.
func (w *PodUnavailableBudget) ValidateUpdate(ctx context.Context, before, after *policyv1beta1.PodUnavailableBudget) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) && maps.Equal(before.Annotations, after.Annotations) {
		return nil, nil
	}
	added, known := review.Compare(w.judge(ctx, before), w.judge(ctx, after))
	warnings := slices.Concat(known, misplaced(ctx, after), useless(after))
	if err := review.Invalid(kind, after.Name, added); err != nil {
		return warnings, err
	}
	return append(warnings, w.beyond(ctx, after)...), nil
}

// ValidateDelete allows every deletion.
func (w *PodUnavailableBudget) ValidateDelete(context.Context, *policyv1beta1.PodUnavailableBudget) (admission.Warnings, error) {
	return nil, nil
}
