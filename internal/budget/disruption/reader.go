package disruption

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Reader gathers what budgets count.
type Reader struct {
	// Kinds tells which further kinds of workload the cache holds; nil for none.
	Kinds *workloads.Registry

	cached cache.Cache
	scales *workloads.Scales
}

// NewReader makes a reader of a cache that holds what Needs says. Sizes of workloads that the
// cache does not hold come from their scale subresource.
func NewReader(cached cache.Cache, subresources client.SubResourceClientConstructor) *Reader {
	return &Reader{cached: cached, scales: workloads.NewScales(subresources, nil)}
}

// Facts are what one budget counts.
type Facts struct {
	Budget budget.Budget
	// Living is how many of the pods do not terminate.
	Living int
	// Pods are the objects of Budget.Pods in the same order, which callers must not change.
	Pods []*corev1.Pod
	// chains are the controllers of the pods, in the same order. Pods of one controller share
	// theirs.
	chains [][]workload.Owner
	// Problem says which annotation of the budget is invalid; nil when none is. The rest holds.
	Problem error
}

// Facts gathers what one budget counts.
func (r *Reader) Facts(ctx context.Context, pub *policyv1beta1.PodUnavailableBudget, now time.Time) (Facts, error) {
	var f Facts
	f.Budget, f.Problem = budget.Of(pub)
	matcher, err := budget.MatcherOf(pub)
	if err != nil {
		f.Problem = err
		f.Budget.Unknown = err.Error()
		return f, nil //nolint:nilerr // the budget shows it, and a next try would find the same
	}
	if err = r.cover(ctx, pub.Namespace, matcher, &f, now); err != nil {
		return f, err
	}
	f.Budget.Expected, f.Budget.Unknown, err = r.size(ctx, pub, matcher, &f, now)
	return f, err
}

// cover finds the pods of a budget that have not ended and may go: a pod that terminates is not available,
// and a message may name it. Each pod is read once: thousands of them do not fit into the caches
// of a processor.
func (r *Reader) cover(ctx context.Context, namespace string, matcher budget.Matcher, f *Facts, now time.Time) error {
	all, err := r.pods(ctx, namespace)
	if err != nil {
		return err
	}
	chains := newChains(r.cached)
	for _, pod := range all {
		if workload.Ended(pod) || workload.Mirrors(pod) {
			continue
		}
		chain, err := chains.of(ctx, pod)
		if err != nil {
			return err
		}
		if !matcher.Covers(pod, chain) {
			continue
		}
		if err := r.add(ctx, pod, chain, f, now); err != nil {
			return err
		}
	}
	return nil
}

// add adds a pod to those that a budget covers.
func (r *Reader) add(ctx context.Context, pod *corev1.Pod, chain []workload.Owner, f *Facts, now time.Time) (err error) {
	counted := budget.PodOf(pod, f.Budget.Rules.Stable, now)
	if f.Budget.Rules.KeepPlace {
		counted.Displaced, err = r.displaced(ctx, pod, now)
	}
	if !counted.Finished {
		f.Living++
	}
	f.Pods, f.chains, f.Budget.Pods = append(f.Pods, pod), append(f.chains, chain), append(f.Budget.Pods, counted)
	return err
}

// pods returns the pods of a namespace.
func (r *Reader) pods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	store, err := cluster.StoreOf(ctx, r.cached, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	return store.In(namespace)
}

// count returns how many pods and workloads a namespace has: a decision looks at each of them.
func (r *Reader) count(ctx context.Context, namespace string) (sum int, err error) {
	all, err := r.held(ctx)
	if err != nil {
		return 0, err
	}
	pods, err := cluster.StoreOf[client.Object](ctx, r.cached, &corev1.Pod{})
	if err != nil {
		return 0, err
	}
	all[schema.GroupKind{Kind: "Pod"}] = held{Store: pods}
	for _, of := range all {
		n, err := of.Count(namespace)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Version is the newest resource version of pods that the cache shows. What is read of pods
// afterwards is as new, or newer.
func (r *Reader) Version(ctx context.Context) (string, error) {
	store, err := cluster.StoreOf(ctx, r.cached, &corev1.Pod{})
	if err != nil {
		return "", err
	}
	return store.Version(), nil
}
