package disruption

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/cluster"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/budget"
	"github.com/limpet-io/limpet/pkg/workload"
)

// Covering returns the first budgets that cover a pod, by name. It lists budgets, and never pods.
func (r *Reader) Covering(ctx context.Context, pod *corev1.Pod, most int) ([]*policyv1beta1.PodUnavailableBudget, error) {
	chain, err := cluster.ChainOf(ctx, r.cached, pod)
	if err != nil {
		return nil, err
	}
	candidates, err := cluster.BudgetsFor(ctx, r.cached, pod.Namespace, pod.Labels, chain)
	var found []*policyv1beta1.PodUnavailableBudget
	for _, pub := range candidates {
		if len(found) == most {
			break
		}
		if matcher, err := budget.MatcherOf(pub); err == nil && matcher.Covers(pod, chain) {
			found = append(found, pub)
		}
	}
	return found, err
}

// covering is a budget that covers a pod, with its parsed selectors.
type covering struct {
	object  *policyv1beta1.PodUnavailableBudget
	matcher budget.Matcher
}

func (r *Reader) covering(ctx context.Context, pod *corev1.Pod, chain []workload.Owner) ([]covering, error) {
	candidates, err := cluster.BudgetsFor(ctx, r.cached, pod.Namespace, pod.Labels, chain)
	return matching(candidates, pod, chain), err
}

// matching keeps the budgets that cover a pod.
func matching(candidates []*policyv1beta1.PodUnavailableBudget, pod *corev1.Pod, chain []workload.Owner) []covering {
	var found []covering
	for _, pub := range candidates {
		matcher, err := budget.MatcherOf(pub)
		if err == nil && matcher.Covers(pod, chain) { // the condition of a budget without valid selectors says so
			found = append(found, covering{pub, matcher})
		}
	}
	return found
}

// covering returns the budgets that cover the pod of a request. The API server asks about pods
// of namespaces with budgets alone: where the cache shows none, it may not show the first one
// yet.
func (j *Judge) covering(ctx context.Context, r Request, chain []workload.Owner) ([]covering, error) {
	pod := r.Pod
	var one, list policyv1beta1.PodUnavailableBudgetList
	in := client.InNamespace(pod.Namespace)
	if err := j.reader.cached.List(ctx, &one, in, client.Limit(1), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list budgets of namespace %s: %w", pod.Namespace, err)
	}
	if len(one.Items) > 0 || r.Own {
		return j.reader.covering(ctx, pod, chain)
	}
	if err := j.unproven.List(ctx, &list, in); err != nil && !cluster.NotServed(err) { // without the kind there are no budgets
		return nil, fmt.Errorf("list budgets of namespace %s: %w", pod.Namespace, err)
	}
	var all []*policyv1beta1.PodUnavailableBudget
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return matching(all, pod, chain), nil
}
