package disruption

import (
	"context"
	"fmt"
	"math"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// mostBeside is how many budgets a namespace may have for its uncovered pods to be looked up past the cache: a list has
// few pages.
const mostBeside = 64

// limitUnseen bounds the lists of budgets of one namespace. All requests of a namespace ask for the same list of each
// kind, so that at most one list of each waits.
var limitUnseen = fair.Bounds{Each: 1, Waiting: 2}

// unseen returns the budgets that cover a pod and that the cache does not show yet. The cache shows no budget that
// covers the pod.
//
// The API server asks about pods of namespaces with budgets alone. Where the cache shows no budget, the first one
// is missing. Beside other budgets, a new one is looked for only if a budget could refuse the request.
func (j *Judge) unseen(ctx context.Context, c *inquiry) ([]covering, error) {
	namespace := c.request.Pod.Namespace
	known, err := j.reader.budgets(ctx, namespace, mostBeside+1)
	if err != nil || c.request.Own {
		return nil, err
	}
	if known == 0 {
		return j.stored(ctx, c)
	}
	if known > mostBeside || c.request.DryRun {
		return nil, nil
	}
	if c.request.Changed == nil { // whether a change leaves a budget depends on the budgets
		facts, err := j.facts(ctx, c)
		if err != nil || budget.VectorOf(facts).Default() == budget.Allow {
			return nil, err
		}
	}
	return j.stored(ctx, c, client.Limit(mostBeside+1))
}

// budgets returns how many budgets a namespace has in the cache, up to a bound.
func (r *Reader) budgets(ctx context.Context, namespace string, most int64) (int, error) {
	var list policyv1beta1.PodUnavailableBudgetList
	if err := r.cached.List(ctx, &list, client.InNamespace(namespace), client.Limit(most), client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list budgets of namespace %s: %w", namespace, err)
	}
	var divided limpetv1alpha1.DistributedPodDisruptionBudgetList
	if err := r.cached.List(ctx, &divided, client.InNamespace(namespace), client.Limit(most), client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list DistributedPodDisruptionBudgets of namespace %s: %w", namespace, err)
	}
	return len(list.Items) + len(divided.Items), nil
}

// stored returns the budgets that cover a pod, as the API server has them.
func (j *Judge) stored(ctx context.Context, c *inquiry, options ...client.ListOption) ([]covering, error) {
	namespace := c.request.Pod.Namespace
	var list policyv1beta1.PodUnavailableBudgetList
	err := j.newest.List(ctx, &list, append(options, client.InNamespace(namespace))...)
	if err != nil && !cluster.NotServed(err) { // without the kind there are no budgets
		return nil, fmt.Errorf("list budgets of namespace %s: %w", namespace, err)
	}
	all := make([]*policyv1beta1.PodUnavailableBudget, len(list.Items))
	for i := range list.Items { // other requests may share the list
		all[i] = &list.Items[i]
	}
	var divided limpetv1alpha1.DistributedPodDisruptionBudgetList
	err = j.newest.List(ctx, &divided, append(options, client.InNamespace(namespace))...)
	if err != nil && !cluster.NotServed(err) {
		return nil, fmt.Errorf("list DistributedPodDisruptionBudgets of namespace %s: %w", namespace, err)
	}
	of := make([]*limpetv1alpha1.DistributedPodDisruptionBudget, len(divided.Items))
	for i := range divided.Items {
		of[i] = &divided.Items[i]
	}
	return append(matching(all, c.request.Pod, c.chain, math.MaxInt), dividing(of, c.request.Pod, math.MaxInt)...), nil
}
