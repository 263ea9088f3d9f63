package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/review"
	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// mostNamed bounds the names in a warning.
const mostNamed = 3

// useless warns of what is allowed and protects nothing, or lets no pod go.
func useless(b *policyv1beta1.PodUnavailableBudget) admission.Warnings {
	var out admission.Warnings
	if workload.IsLeftOut(b.Namespace) {
		out = append(out, fmt.Sprintf("metadata.namespace: no request about a pod of namespace %s is judged, "+
			"because it would wait for the controller; remedy: another namespace", b.Namespace))
	}
	if v := b.Spec.MaxUnavailable; v != nil {
		out = append(out, extremes("spec.maxUnavailable", v, nothingGoes, allGo)...)
	}
	if v := b.Spec.MinAvailable; v != nil {
		out = append(out, extremes("spec.minAvailable", v, allGo, nothingGoes)...)
	}
	return out
}

const (
	allGo       = "lets all pods go at once, so that the budget protects nothing"
	nothingGoes = "lets no available pod go, so that no node with such a pod can be drained"
)

// extremes warns of a number of none, and of a percentage of all.
func extremes(name string, value *intstr.IntOrString, none, all string) admission.Warnings {
	percent, err := intstr.GetScaledValueFromIntOrPercent(value, 100, true)
	switch {
	case err != nil: // the CRD has refused it
		return nil
	case percent == 0:
		return admission.Warnings{fmt.Sprintf("%s: %s %s", name, value, none)}
	case percent == 100 && value.Type == intstr.String:
		return admission.Warnings{fmt.Sprintf("%s: %s %s", name, value, all)}
	}
	return nil
}

// beyond warns of numbers that the size of the workload makes useless. A workload without pods
// may be about to get some.
func (w *PodUnavailableBudget) beyond(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) admission.Warnings {
	name, number, effect := "spec.minAvailable", b.Spec.MinAvailable, nothingGoes
	if number == nil {
		name, number, effect = "spec.maxUnavailable", b.Spec.MaxUnavailable, allGo
	}
	if number == nil || number.Type != intstr.Int || number.IntVal == 0 {
		return nil
	}
	size, err := w.size(ctx, b)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot tell whether the numbers of a budget suit its workload",
			"namespace", b.Namespace, "budget", b.Name)
		return nil
	}
	if size == 0 || number.IntVal < size {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("%s: %s of %d pods %s", name, number, size, effect)}
}

// size is how many pods the workload of a budget has; 0 where that is not known.
func (w *PodUnavailableBudget) size(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) (int32, error) {
	if b.Spec.ProtectTotalReplicas != nil || w.Size == nil {
		return ptr.Deref(b.Spec.ProtectTotalReplicas, 0), nil
	}
	return w.Size(ctx, b)
}

// shared warns of other budgets for the same pods. OpenKruise refuses them, because it asks one
// budget for each pod. The guards ask all of them, so nothing is wrong, but it may be a slip.
func shared(b *policyv1beta1.PodUnavailableBudget, all []policyv1beta1.PodUnavailableBudget) admission.Warnings {
	var names []string
	for i := range all {
		if o := &all[i]; o.Name != b.Name && o.DeletionTimestamp == nil && samePods(b, o) {
			names = append(names, o.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	more := ""
	if n := len(names) - mostNamed; n > 0 {
		names, more = names[:mostNamed], fmt.Sprintf(" and %d more", n)
	}
	return admission.Warnings{fmt.Sprintf("spec: the same pods have the budget %s%s; a pod may go when all of its budgets allow it",
		strings.Join(names, ", "), more)}
}

func samePods(a, b *policyv1beta1.PodUnavailableBudget) bool {
	if x, y := a.Spec.TargetReference, b.Spec.TargetReference; x != nil && y != nil {
		return workload.NewTarget(x.APIVersion, x.Kind, x.Name) == workload.NewTarget(y.APIVersion, y.Kind, y.Name)
	}
	return a.Spec.Selector != nil && equality.Semantic.DeepEqual(a.Spec.Selector, b.Spec.Selector)
}

// misplaced warns of annotations of v1alpha1 in v1beta1, where they are fields.
func misplaced(ctx context.Context, b *policyv1beta1.PodUnavailableBudget) admission.Warnings {
	if review.IsFormer(ctx) {
		return nil
	}
	names := []string{"protectOperations", "protectTotalReplicas", "ignoredPodSelector"}
	var out admission.Warnings
	for i, key := range fieldAnnotations {
		if _, set := b.Annotations[key]; set {
			out = append(out, fmt.Sprintf("%s does nothing in v1beta1; remedy: spec.%s", review.Annotation(key), names[i]))
		}
	}
	return out
}
