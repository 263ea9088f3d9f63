package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// indexSelects is the index of budgets by what a pod that they select must have.
const indexSelects = "limpet.selects"

// Keys of that index. A budget is in it by one requirement of its selector, so that a pod finds
// its budgets among ten thousand of the namespace.
const anyPod = "*"

func labelKey(key, value string) string       { return "l:" + key + "=" + value }
func presenceKey(key string) string           { return "k:" + key }
func targetKey(target workload.Target) string { return "t:" + target.String() }

// BudgetsByPods indexes PodUnavailableBudgets by what their pods must have.
func BudgetsByPods() Index {
	return By(indexSelects, func(b *policyv1beta1.PodUnavailableBudget) []string {
		if ref := b.Spec.TargetReference; ref != nil {
			return []string{targetKey(workload.NewTarget(ref.APIVersion, ref.Kind, ref.Name))}
		}
		return selectorKeys(b.Spec.Selector)
	})
}

// DistributedBudgetsByPods indexes DistributedPodDisruptionBudgets by what their pods must have.
func DistributedBudgetsByPods() Index {
	return By(indexSelects, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) []string { return selectorKeys(b.Spec.Selector) })
}

// DisruptionBudgetsByPods indexes PodDisruptionBudgets by what their pods must have.
func DisruptionBudgetsByPods() Index {
	return By(indexSelects, func(b *policyv1.PodDisruptionBudget) []string { return selectorKeys(b.Spec.Selector) })
}

// selectorKeys are the keys of a selector: one of them is among the keys of each pod that the
// selector matches.
func selectorKeys(s *metav1.LabelSelector) []string {
	if s == nil {
		return nil
	}
	if len(s.MatchLabels) > 0 {
		key := slices.Min(slices.Collect(maps.Keys(s.MatchLabels))) // always the same one: an index must be repeatable
		return []string{labelKey(key, s.MatchLabels[key])}
	}
	for _, r := range s.MatchExpressions {
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			keys := make([]string, len(r.Values))
			for i, value := range r.Values {
				keys[i] = labelKey(r.Key, value)
			}
			return keys
		case metav1.LabelSelectorOpExists:
			return []string{presenceKey(r.Key)}
		default: // a pod without the label matches, too
		}
	}
	return []string{anyPod}
}

func podKeys(labels map[string]string, chain []workload.Owner) []string {
	keys := []string{anyPod}
	for key, value := range labels {
		keys = append(keys, labelKey(key, value), presenceKey(key))
	}
	for _, owner := range chain {
		keys = append(keys, targetKey(owner.Target))
	}
	return keys
}

// SelectorKeys are what a selector asks of a pod: one of them is among the PodKeys of each pod that
// the selector matches.
func SelectorKeys(s *metav1.LabelSelector) []string {
	keys := selectorKeys(s)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// PodKeys are what a pod with these labels has for SelectorKeys.
func PodKeys(labels map[string]string) []string { return podKeys(labels, nil) }

// BudgetsFor returns the PodUnavailableBudgets that may cover a pod with these labels and
// controllers, by name. Their selectors must be asked.
func BudgetsFor(ctx context.Context, r client.Reader, namespace string, labels map[string]string, chain []workload.Owner) ([]*policyv1beta1.PodUnavailableBudget, error) {
	var found []*policyv1beta1.PodUnavailableBudget
	for _, key := range podKeys(labels, chain) {
		var list policyv1beta1.PodUnavailableBudgetList
		if err := listSelecting(ctx, r, &list, namespace, key); err != nil {
			return nil, err
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	}
	return byName(found), nil
}

// DistributedBudgetsFor returns the DistributedPodDisruptionBudgets that may cover a pod with these labels, by
// name. Their selectors must be asked.
func DistributedBudgetsFor(ctx context.Context, r client.Reader, namespace string, labels map[string]string) ([]*limpetv1alpha1.DistributedPodDisruptionBudget, error) {
	var found []*limpetv1alpha1.DistributedPodDisruptionBudget
	for _, key := range podKeys(labels, nil) {
		var list limpetv1alpha1.DistributedPodDisruptionBudgetList
		if err := listSelecting(ctx, r, &list, namespace, key); err != nil {
			return nil, err
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	}
	return byName(found), nil
}

// DisruptionBudgetsFor returns the PodDisruptionBudgets that select a pod with these labels, by
// name. Only their spec is certain to be there.
func DisruptionBudgetsFor(ctx context.Context, r client.Reader, namespace string, of map[string]string) ([]*policyv1.PodDisruptionBudget, error) {
	var found []*policyv1.PodDisruptionBudget
	for _, key := range podKeys(of, nil) {
		var list policyv1.PodDisruptionBudgetList
		if err := listSelecting(ctx, r, &list, namespace, key); err != nil {
			return nil, err
		}
		for i := range list.Items {
			selector, err := metav1.LabelSelectorAsSelector(list.Items[i].Spec.Selector)
			if err == nil && selector.Matches(labels.Set(of)) { // the API server skips one that cannot be parsed
				found = append(found, &list.Items[i])
			}
		}
	}
	return byName(found), nil
}

func listSelecting(ctx context.Context, r client.Reader, into client.ObjectList, namespace, key string) error {
	err := r.List(ctx, into, client.InNamespace(namespace), client.MatchingFields{indexSelects: key}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list %T in namespace %s: %w", into, namespace, err)
	}
	return nil
}

// byName sorts budgets, and drops those that were found twice while they changed.
func byName[T client.Object](found []T) []T {
	slices.SortFunc(found, func(a, b T) int {
		switch {
		case a.GetName() < b.GetName():
			return -1
		case a.GetName() > b.GetName():
			return 1
		}
		return 0
	})
	return slices.CompactFunc(found, func(a, b T) bool { return a.GetName() == b.GetName() })
}
