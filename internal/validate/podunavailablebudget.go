package validate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/mark"
	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// PodUnavailableBudgetPath is the path of the webhook for PodUnavailableBudgets.
const PodUnavailableBudgetPath = "/validate-podunavailablebudget"

// PodUnavailableBudget refuses invalid PodUnavailableBudgets. Before a valid one is stored, its
// namespace has the label by which requests about pods are sent to the guards.
type PodUnavailableBudget struct {
	// Cached reads the budgets of a namespace.
	Cached     client.Reader
	Namespaces *Namespaces
	// Size returns how many pods the workload of a budget has; 0 where that is not known. It is
	// asked for warnings only.
	Size func(context.Context, *policyv1beta1.PodUnavailableBudget) (int32, error)
}

var _ admission.Validator[*policyv1beta1.PodUnavailableBudget] = (*PodUnavailableBudget)(nil)

// ValidateCreate names every field that is wrong.
func (w *PodUnavailableBudget) ValidateCreate(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) (admission.Warnings, error) {
	var all policyv1beta1.PodUnavailableBudgetList
	if err := w.Cached.List(ctx, &all, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list budgets of namespace %s: %w", b.Namespace, err)
	}
	warnings := slices.Concat(misplaced(ctx, b), useless(b), shared(b, all.Items))
	if errs := w.judge(ctx, b); len(errs) > 0 {
		return warnings, invalidBudget(b.Name, errs)
	}
	warnings = append(warnings, w.beyond(ctx, b)...)
	return warnings, w.label(ctx, b)
}

// judge names every field that is wrong, as the client has named it.
func (w *PodUnavailableBudget) judge(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) field.ErrorList {
	errs := judgeBudget(b)
	if isFormer(ctx) {
		errs = append(errs, judgeFields(b)...)
	}
	return asSent(ctx, errs)
}

// label labels the namespace of a budget, unless the request is a dry run or the guards leave
// the namespace out.
func (w *PodUnavailableBudget) label(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return fmt.Errorf("judge PodUnavailableBudget %s: %w", b.Name, err)
	}
	if request.DryRun != nil && *request.DryRun || workload.IsLeftOut(b.Namespace) {
		return nil
	}
	return w.Namespaces.Label(ctx, mark.Budgets, b.Namespace)
}

// ValidateUpdate judges only changes: what was wrong before a rule came is answered with a
// warning.
func (w *PodUnavailableBudget) ValidateUpdate(ctx context.Context, before, after *policyv1beta1.PodUnavailableBudget) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) && maps.Equal(before.Annotations, after.Annotations) {
		return nil, nil
	}
	errs := newErrors(w.judge(ctx, before), w.judge(ctx, after))
	warnings := slices.Concat(errs.known, misplaced(ctx, after), useless(after))
	if len(errs.added) > 0 {
		return warnings, invalidBudget(after.Name, errs.added)
	}
	return append(warnings, w.beyond(ctx, after)...), nil
}

// mostKnown bounds the warnings of what was wrong before.
const mostKnown = 4

// judged is what is wrong with an object that changes.
type judged struct {
	added field.ErrorList
	// known was wrong before.
	known admission.Warnings
}

// newErrors tells errors that an object had before from those that it has now.
func newErrors(before, after field.ErrorList) judged {
	was := map[string]bool{}
	for _, e := range before {
		was[e.Error()] = true
	}
	var out judged
	for _, e := range after {
		switch {
		case !was[e.Error()]:
			out.added = append(out.added, e)
		case len(out.known) < mostKnown:
			out.known = append(out.known, short(e.Error()))
		}
	}
	return out
}

func invalidBudget(name string, errs field.ErrorList) error {
	return apierrors.NewInvalid(policyv1beta1.GroupVersion.WithKind("PodUnavailableBudget").GroupKind(), name, errs)
}

// ValidateDelete allows every deletion.
func (w *PodUnavailableBudget) ValidateDelete(context.Context, *policyv1beta1.PodUnavailableBudget) (admission.Warnings, error) {
	return nil, nil
}
