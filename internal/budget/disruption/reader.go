package disruption

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Covered are the pods that a budget covers, and what it counts.
type Covered struct {
	Budget budget.Budget
	// Living is how many of the pods do not terminate.
	Living int
	// Pods are the objects of Budget.Pods in the same order, which callers must not change.
	Pods []*corev1.Pod
	// chains are the controllers of the pods, in the same order. Pods of one controller share
	// theirs.
	chains [][]workload.Owner
	// wants are how many pods each workload wants; nil where that is not known or does not count.
	wants map[workload.Target]int32
	// Problem says which annotation of the budget is invalid; nil when none is. The rest holds.
	Problem error
}

// Covered gathers what a budget covers and counts.
func (r *Reader) Covered(ctx context.Context, pub *policyv1beta1.PodUnavailableBudget, now time.Time) (Covered, error) {
	var f Covered
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
func (r *Reader) cover(ctx context.Context, namespace string, matcher budget.Matcher, f *Covered, now time.Time) error {
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
func (r *Reader) add(ctx context.Context, pod *corev1.Pod, chain []workload.Owner, f *Covered, now time.Time) (err error) {
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
	all, err := r.stores(ctx)
	if err != nil {
		return 0, err
	}
	pods, err := cluster.StoreOf[client.Object](ctx, r.cached, &corev1.Pod{})
	if err != nil {
		return 0, err
	}
	all[schema.GroupKind{Kind: "Pod"}] = kindStore{Store: pods}
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

// kindStore has the objects of a kind of workload that the cache holds, and its version; "" for a kind of Kubernetes.
type kindStore struct {
	cluster.Store[client.Object]
	version string
}

// stores returns the kinds of workload that the cache holds.
func (r *Reader) stores(ctx context.Context) (map[schema.GroupKind]kindStore, error) {
	objects := maps.Clone(cluster.Workloads)
	for _, kind := range r.Kinds.Held() {
		objects[kind.GroupKind()] = workloads.Short(kind)
	}
	all := make(map[schema.GroupKind]kindStore, len(objects))
	for kind, o := range objects {
		store, err := cluster.StoreOf(ctx, r.cached, o)
		if err != nil {
			return nil, err
		}
		all[kind] = kindStore{store, o.GetObjectKind().GroupVersionKind().Version}
	}
	return all, nil
}

// counted are the workloads of which a budget counts the pods.
type counted struct {
	matcher  budget.Matcher
	target   workload.Target            // of the budget; zero for a selector
	versions map[workload.Target]string // by the workload
	stores   map[schema.GroupKind]kindStore
}

// size returns how many pods a budget shall expect, or why that is not known: the pods of its workloads, also of those
// that have none at the moment, and the pods that no workload makes again.
func (r *Reader) size(ctx context.Context, pub *policyv1beta1.PodUnavailableBudget, matcher budget.Matcher, f *Covered, now time.Time) (int32, string, error) {
	switch {
	case pub.Spec.ProtectTotalReplicas != nil:
		return max(*pub.Spec.ProtectTotalReplicas, 0), "", nil
	case f.Budget.Rules.IgnoreScale:
		return int32(f.Living), "", nil
	}
	all, err := r.stores(ctx)
	if err != nil {
		return 0, "", err
	}
	c := counted{matcher: matcher, versions: map[workload.Target]string{}, stores: all}
	if ref := pub.Spec.TargetReference; ref != nil && pub.Spec.Selector == nil {
		c.target = workload.NewTarget(ref.APIVersion, ref.Kind, ref.Name)
		c.versions[c.target] = schema.FromAPIVersionAndKind(ref.APIVersion, "").Version
	}
	f.Budget.Bare = c.ofPods(f)
	if err := c.ofTemplates(pub.Namespace); err != nil {
		return 0, "", err
	}
	sum, wants := int64(f.Budget.Bare), map[workload.Target]int32{}
	for _, target := range byText(c.versions) {
		n, unknown, err := r.wants(ctx, all, pub.Namespace, target, c.versions[target], now)
		if err != nil || unknown != "" {
			return 0, unknown, err
		}
		sum += int64(n)
		wants[target] = n
	}
	f.wants = wants
	return int32(min(sum, math.MaxInt32)), "", nil
}

// byText returns workloads in an order that is the same each time.
func byText[V any](of map[workload.Target]V) []workload.Target {
	return slices.SortedFunc(maps.Keys(of), func(a, b workload.Target) int { return strings.Compare(a.String(), b.String()) })
}

// wants returns how many pods a workload wants, or why that is not known: from the cache, or by its scale.
func (r *Reader) wants(
	ctx context.Context, all map[schema.GroupKind]kindStore, namespace string, t workload.Target, version string, now time.Time,
) (int32, string, error) {
	if of, cached := all[t.GroupKind()]; cached {
		w, found := of.Get(namespace, t.Name)
		if !found || w.GetDeletionTimestamp() != nil {
			return 0, "", nil
		}
		if _, n := cluster.MakesPods(w); n != cluster.Unsized {
			return n, "", nil
		}
		version = of.version
	}
	kind := schema.GroupVersionKind{Group: t.Group, Version: version, Kind: t.Kind}
	return r.scales.Read(ctx, kind, client.ObjectKey{Namespace: namespace, Name: t.Name}, now)
}

// ofPods finds the workloads of pods, and returns how many pods have none.
func (c counted) ofPods(f *Covered) (bare int) {
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

// ofTemplates finds the workloads whose next pods the budget would cover.
func (c counted) ofTemplates(namespace string) error {
	var chain []workload.Owner
	for kind, of := range c.stores {
		all, err := of.In(namespace)
		if err != nil {
			return err
		}
		for _, w := range all {
			template, _ := cluster.MakesPods(w)
			chain = append(chain[:0], workload.Owner{Target: workload.Target{Group: kind.Group, Kind: kind.Kind, Name: w.GetName()}})
			owner, owned := workload.ControllerOf(w)
			if owned = owned && chain[0].Intermediate(); owned {
				chain = append(chain, owner)
			}
			if (!owned || !c.holds(owner)) && c.matcher.Covers(template, chain) { // a Deployment has a template of its own
				c.add(chain, "")
			}
		}
	}
	return nil
}

// add finds the workload of a chain that says the size: the target, or else the last one. A kind whose size is not
// known, such as a Rollout, leaves that to its ReplicaSets.
func (c counted) add(chain []workload.Owner, version string) {
	at := len(chain) - 1
	if c.target.Name != "" {
		at = slices.IndexFunc(chain, func(owner workload.Owner) bool { return owner.Target == c.target })
	}
	if at > 0 && !c.holds(chain[at]) {
		delete(c.versions, c.target)
		at--
	}
	if w := chain[at].Target; w != c.target {
		c.versions[w] = version
	}
}

// holds reports whether the cache holds workloads of a kind.
func (c counted) holds(owner workload.Owner) bool {
	_, holds := c.stores[owner.GroupKind()]
	return holds
}
