package disruption

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Covering returns the first budgets that cover a pod, by name. It lists budgets, and never pods.
func (r *Reader) Covering(ctx context.Context, pod *corev1.Pod, most int) ([]*policyv1beta1.PodUnavailableBudget, error) {
	chain, err := cluster.ChainOf(ctx, r.cached, pod)
	if err != nil {
		return nil, err
	}
	covering, err := r.covering(ctx, pod, chain, most)
	var found []*policyv1beta1.PodUnavailableBudget
	for _, c := range covering {
		found = append(found, c.object)
	}
	return found, err
}

// covering is a budget that covers a pod, with its parsed selectors.
type covering struct {
	object  *policyv1beta1.PodUnavailableBudget
	matcher budget.Matcher
	leaves  bool // the request takes the pod out of the budget, now or by the garbage collector
}

func (r *Reader) covering(ctx context.Context, pod *corev1.Pod, chain []workload.Owner, most int) ([]covering, error) {
	candidates, err := cluster.BudgetsFor(ctx, r.cached, pod.Namespace, pod.Labels, chain)
	return matching(candidates, pod, chain, most), err
}

// matching returns the first budgets that cover a pod.
func matching(candidates []*policyv1beta1.PodUnavailableBudget, pod *corev1.Pod, chain []workload.Owner, most int) []covering {
	var found []covering
	for _, pub := range candidates {
		if len(found) == most {
			break
		}
		matcher, err := budget.MatcherOf(pub)
		if err == nil && matcher.Covers(pod, chain) { // the condition of a budget without valid selectors says so
			found = append(found, covering{object: pub, matcher: matcher})
		}
	}
	return found
}
