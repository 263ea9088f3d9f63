package disruption

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/cluster"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/budget"
	"github.com/limpet-io/limpet/pkg/workload"
)

// counted are the workloads of which a budget counts the pods.
type counted struct {
	matcher budget.Matcher
	target  workload.Target // of the budget; zero for a selector
	kinds   map[workload.Target]schema.GroupVersionKind
}

// size returns how many pods a budget shall expect, or why that is not known: the pods of its workloads, also of those
// that have none at the moment, and the pods that no workload makes again.
func (r *Reader) size(ctx context.Context, pub *policyv1beta1.PodUnavailableBudget, matcher budget.Matcher, f *Facts, now time.Time) (int32, string, error) {
	switch {
	case pub.Spec.ProtectTotalReplicas != nil:
		return max(*pub.Spec.ProtectTotalReplicas, 0), "", nil
	case f.Budget.Rules.IgnoreScale:
		return int32(f.Living), "", nil
	}
	c := counted{matcher: matcher, kinds: map[workload.Target]schema.GroupVersionKind{}}
	if ref := pub.Spec.TargetReference; ref != nil && pub.Spec.Selector == nil {
		c.target = workload.NewTarget(ref.APIVersion, ref.Kind, ref.Name)
		c.kinds[c.target] = schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	}
	f.Budget.Bare = c.ofPods(f)
	sum, err := r.ofTemplates(ctx, c, pub.Namespace)
	if err != nil {
		return 0, "", err
	}
	sum += int64(f.Budget.Bare)
	for _, target := range slices.SortedFunc(maps.Keys(c.kinds), func(a, b workload.Target) int { return strings.Compare(a.String(), b.String()) }) {
		if cachedKind(target.GroupKind()) {
			continue
		}
		n, unknown, err := r.scales.Read(ctx, c.kinds[target], client.ObjectKey{Namespace: pub.Namespace, Name: target.Name}, now)
		if err != nil || unknown != "" {
			return 0, unknown, err
		}
		sum += int64(n)
	}
	return int32(min(sum, math.MaxInt32)), "", nil
}

// ofPods finds the workloads of pods, and returns how many pods have none.
func (c counted) ofPods(f *Facts) (bare int) {
	var last *workload.Owner
	for n, chain := range f.chains {
		switch {
		case len(chain) == 0 && workload.Alive(f.Pods[n]):
			bare++
		case len(chain) > 0 && last != &chain[0]: // pods of one controller share its chain
			last = &chain[0]
			c.add(chain, schema.FromAPIVersionAndKind(metav1.GetControllerOfNoCopy(f.Pods[n]).APIVersion, "").Version)
		}
	}
	return bare
}

// ofTemplates finds the workloads whose next pods the budget would cover, and returns how many pods all workloads want
// that the cache holds.
func (r *Reader) ofTemplates(ctx context.Context, c counted, namespace string) (sum int64, err error) {
	var chain []workload.Owner
	for kind, o := range cluster.Workloads {
		store, err := cluster.StoreOf(ctx, r.cached, o)
		if err != nil {
			return 0, err
		}
		all, err := store.In(namespace)
		if err != nil {
			return 0, err
		}
		for _, w := range all {
			template, wants := cluster.MakesPods(w)
			chain = append(chain[:0], workload.Owner{Target: workload.Target{Group: kind.Group, Kind: kind.Kind, Name: w.GetName()}})
			owner, owned := workload.ControllerOf(w)
			if owned = owned && chain[0].Intermediate(); owned {
				chain = append(chain, owner)
			}
			if (!owned || !cachedKind(owner.GroupKind())) && c.matcher.Covers(template, chain) { // a Deployment has a template of its own
				c.add(chain, "")
			}
			if _, ok := c.kinds[chain[0].Target]; ok && w.GetDeletionTimestamp() == nil {
				sum += int64(wants)
			}
		}
	}
	return sum, nil
}

// add finds the workload of a chain that says the size: the target, or else the last one. A kind whose size is not
// known, such as a Rollout, leaves that to its ReplicaSets.
func (c counted) add(chain []workload.Owner, version string) {
	at := len(chain) - 1
	if c.target.Name != "" {
		at = slices.IndexFunc(chain, func(owner workload.Owner) bool { return owner.Target == c.target })
	}
	if at > 0 && !cachedKind(chain[at].GroupKind()) {
		delete(c.kinds, c.target)
		at--
	}
	if w := chain[at]; w.Target != c.target {
		c.kinds[w.Target] = schema.GroupVersionKind{Group: w.Group, Version: version, Kind: w.Kind}
	}
}

// cachedKind tells whether the cache holds workloads of a kind.
func cachedKind(kind schema.GroupKind) bool { return cluster.Workloads[kind] != nil }

// Wants returns how many pods a workload of a kind that the cache holds wants; 0 for any other kind.
func Wants(o client.Object) int32 {
	_, n := cluster.MakesPods(o)
	return n
}
