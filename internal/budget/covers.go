package budget

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

var (
	errNoPods        = errors.New("budget names no pods: set selector or targetRef")
	errEmptySelector = errors.New("selector is empty and would select every pod: add a label")
)

// Matcher tells which pods a budget covers. MatcherOf parses the selectors once for many pods.
type Matcher struct {
	selector, ignored labels.Selector
	target            workload.Target
}

// MatcherOf reads the selectors and the target of a budget.
func MatcherOf(pub *policyv1beta1.PodUnavailableBudget) (Matcher, error) {
	var m Matcher
	switch ref := pub.Spec.TargetReference; {
	case pub.Spec.Selector != nil:
		selector, err := selectorOf("selector", pub.Spec.Selector)
		if err != nil {
			return m, fmt.Errorf("budget %s: %w", pub.Name, err)
		}
		m.selector = selector
	case ref != nil && ref.Kind != "" && ref.Name != "":
		m.target = workload.NewTarget(ref.APIVersion, ref.Kind, ref.Name)
	default:
		return m, fmt.Errorf("budget %s: %w", pub.Name, errNoPods)
	}
	if pub.Spec.IgnoredPodSelector == nil {
		return m, nil
	}
	ignored, err := selectorOf("ignoredPodSelector", pub.Spec.IgnoredPodSelector)
	if err != nil {
		return Matcher{}, fmt.Errorf("budget %s: %w", pub.Name, err)
	}
	m.ignored = ignored
	return m, nil
}

func selectorOf(field string, s *metav1.LabelSelector) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", field, err)
	}
	if selector.Empty() {
		return nil, fmt.Errorf("read %s: %w", field, errEmptySelector)
	}
	return selector, nil
}

// Covers reports whether the budget counts a pod, or the pods of a template: by the labels, or by the
// chain of controllers. Names and kinds are compared, not UIDs: a workload that is made again has
// the same budget.
func (m Matcher) Covers(pod metav1.Object, chain []workload.Owner) bool {
	if m.selector != nil {
		return m.selector.Matches(labels.Set(pod.GetLabels()))
	}
	return m.target != (workload.Target{}) && slices.ContainsFunc(chain, func(owner workload.Owner) bool { return owner.Target == m.target })
}

// Exempts reports whether the budget lets a covered pod go without a check: the selector of
// ignored pods matches, or the pod has the annotation pub.kruise.io/no-protect. Such a pod
// still counts: when it goes, one pod less is available.
func (m Matcher) Exempts(pod metav1.Object) bool {
	if noProtect, err := strconv.ParseBool(pod.GetAnnotations()[policyv1beta1.AnnotationNoProtect]); err == nil && noProtect {
		return true
	}
	return m.ignored != nil && m.ignored.Matches(labels.Set(pod.GetLabels()))
}

// Leaves reports whether a change of a pod takes it out of the budget: the budget covers the
// old pod and protects it, and does not do both for the new pod. Labels, owner references
// and the annotation pub.kruise.io/no-protect count, because each of them would otherwise
// open the budget for the next request.
func (m Matcher) Leaves(before, after metav1.Object, beforeChain, afterChain []workload.Owner) bool {
	return m.Covers(before, beforeChain) && !m.Exempts(before) &&
		(!m.Covers(after, afterChain) || m.Exempts(after))
}
