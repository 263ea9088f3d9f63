package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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
	return selecting[*policyv1beta1.PodUnavailableBudget](ctx, r, &policyv1beta1.PodUnavailableBudgetList{}, namespace, podKeys(labels, chain))
}

// DistributedBudgetsFor returns the DistributedPodDisruptionBudgets that may cover a pod with these labels, by
// name. Their selectors must be asked.
func DistributedBudgetsFor(ctx context.Context, r client.Reader, namespace string, labels map[string]string) ([]*limpetv1alpha1.DistributedPodDisruptionBudget, error) {
	return selecting[*limpetv1alpha1.DistributedPodDisruptionBudget](ctx, r, &limpetv1alpha1.DistributedPodDisruptionBudgetList{}, namespace, podKeys(labels, nil))
}

// DisruptionBudgetsFor returns the PodDisruptionBudgets that select a pod with these labels, by
// name. Only their spec is certain to be there.
func DisruptionBudgetsFor(ctx context.Context, r client.Reader, namespace string, of map[string]string) ([]*policyv1.PodDisruptionBudget, error) {
	found, err := selecting[*policyv1.PodDisruptionBudget](ctx, r, &policyv1.PodDisruptionBudgetList{}, namespace, podKeys(of, nil))
	return slices.DeleteFunc(found, func(b *policyv1.PodDisruptionBudget) bool {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		return err != nil || !selector.Matches(labels.Set(of)) // the API server skips one that cannot be parsed
	}), err
}

// selecting returns the budgets of the kind of an empty list that are in the index by one of some keys, by name.
func selecting[T client.Object](ctx context.Context, r client.Reader, empty client.ObjectList, namespace string, keys []string) ([]T, error) {
	var found []T
	for _, key := range keys {
		list := empty.DeepCopyObject().(client.ObjectList)
		if err := r.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{indexSelects: key}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %T in namespace %s: %w", list, namespace, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, fmt.Errorf("read %T: %w", list, err)
		}
		for _, o := range items {
			found = append(found, o.(T))
		}
	}
	return byName(found), nil
}

// byName sorts budgets, and drops those that were found twice while they changed.
func byName[T client.Object](found []T) []T {
	slices.SortFunc(found, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return slices.CompactFunc(found, func(a, b T) bool { return a.GetName() == b.GetName() })
}
