package disruption

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// facts gathers in which way a pod goes.
func (j *Judge) facts(ctx context.Context, c *inquiry) (budget.Facts, error) {
	pod := c.request.Pod
	f := budget.Facts{Verb: c.request.Verb, User: c.request.User, ByLimpet: c.request.User == j.user, Pod: pod}
	f.EndsNodes = slices.Contains(j.nodeEnders, c.request.User)
	if c.request.Changed != nil {
		return f, j.change(ctx, c, &f)
	}
	var err error
	if f.NamespaceDeleting, err = j.namespaceEnds(ctx, pod.Namespace); err != nil {
		return f, err
	}
	if c.request.Verb == budget.VerbEvict {
		return f, nil // the rest is about deletions
	}
	if err = j.owner(ctx, c.chain, pod, &f); err != nil {
		return f, err
	}
	node, err := cluster.Node(ctx, j.reader.cached, pod.Spec.NodeName)
	if err != nil {
		return f, err
	}
	if node != nil {
		f.Taints, f.NodeDeleting = node.Spec.Taints, node.DeletionTimestamp != nil
	}
	return f, nil
}

// change gathers what an update or a resize does. A user who may update a budget may exempt its pods.
func (j *Judge) change(ctx context.Context, c *inquiry, f *budget.Facts) error {
	before, after := c.request.Pod, c.request.Changed
	f.Change = budget.Disruptive(before, after)
	if f.Change.Parted && len(c.chain) > 0 {
		all, err := j.reader.stores(ctx)
		if err != nil {
			return err
		}
		state, _ := stateOf(all, before.Namespace, c.chain[0])
		f.Change.Parted = state != budget.OwnerLiving // the controller that stays keeps the pod
	}
	reowned := f.Change.Reowned(c.request.User)
	for i := range c.covering {
		of := &c.covering[i]
		of.leaves = reowned || of.parts(before, after, c.chain, c.after)
		if of.leaves && !reowned && len(c.covering) <= books.MostBudgets && of.matcher.Covers(after, c.after) { // the pod is exempted
			may, err := j.mayExempt(ctx, c.request, of)
			if err != nil {
				return err
			}
			of.leaves = !may
		}
		f.Leaves = f.Leaves || of.leaves
	}
	if !f.Leaves || len(c.chain) == 0 {
		return nil
	}
	all, err := j.reader.stores(ctx)
	f.Owner, _ = stateOf(all, before.Namespace, c.chain[len(c.chain)-1])
	return err
}

func (j *Judge) namespaceEnds(ctx context.Context, name string) (bool, error) {
	var namespace corev1.Namespace
	err := j.reader.cached.Get(ctx, client.ObjectKey{Name: name}, &namespace, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return err == nil && namespace.DeletionTimestamp != nil, nil
}

// owner gathers the state of the pod's workload, and how many pods it wants and has.
func (j *Judge) owner(ctx context.Context, chain []workload.Owner, pod *corev1.Pod, f *budget.Facts) error {
	if len(chain) == 0 {
		return nil
	}
	all, err := j.reader.stores(ctx)
	if err != nil {
		return err
	}
	state, top := stateOf(all, pod.Namespace, chain[len(chain)-1])
	_, near := stateOf(all, pod.Namespace, chain[0])
	wants := func(o client.Object, owner workload.Owner) int32 {
		if o == nil {
			return 0
		}
		n, unknown, err := j.reader.wants(ctx, all, pod.Namespace, owner.Target, "", j.clock.Now())
		if err != nil || unknown != "" {
			return math.MaxInt32 // and so no pod is surplus
		}
		return n
	}
	f.WorkloadWants, f.OwnerWants = wants(top, chain[len(chain)-1]), wants(near, chain[0])
	f.Owner, f.Intended, f.Foreign = state, intended(near, top, f.OwnerWants), near != nil && cluster.Workloads[chain[0].GroupKind()] == nil
	if strings.HasPrefix(f.User, systemUsers) { // no other user scales in
		f.OwnerHas, err = j.living(ctx, pod.Namespace, chain[0].UID)
	}
	return err
}

// intended reports whether a deletion by the controller of a pod is what the workload asks for. A Job replaces no pod by
// a deletion. A Deployment with the strategy Recreate wants no pod of a former template, and makes no other before.
func intended(near, top client.Object, wants int32) bool {
	if d, ok := top.(*appsv1.Deployment); ok {
		return d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && wants == 0
	}
	_, job := near.(*batchv1.Job)
	return job
}

// systemUsers begins the names of the controllers of Kubernetes, and of all service accounts.
const systemUsers = "system:"

// living counts the pods of an owner that do not terminate.
func (j *Judge) living(ctx context.Context, namespace string, owner types.UID) (n int32, err error) {
	pods, err := j.reader.pods(ctx, namespace)
	for _, pod := range pods {
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.UID == owner && workload.Alive(pod) {
			n++
		}
	}
	return n, err
}

// stateOf returns whether an owner lives, and the object of one that does; OwnerUnknown for kinds
// that the cache does not hold.
func stateOf(all map[schema.GroupKind]kindStore, namespace string, owner workload.Owner) (budget.OwnerState, client.Object) {
	of, known := all[owner.GroupKind()]
	if !known {
		return budget.OwnerUnknown, nil
	}
	switch o, found := of.Get(namespace, owner.Name); {
	case !found || o.GetUID() != owner.UID:
		return budget.OwnerGone, nil
	case o.GetDeletionTimestamp() != nil:
		return budget.OwnerDeleting, nil
	default:
		return budget.OwnerLiving, o
	}
}

// Covering returns the first budgets of each kind that cover a pod, by name. It lists budgets, and never pods.
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
	divided *limpetv1alpha1.DistributedPodDisruptionBudget // of which object is what budget.Undivided returns; nil for none
	sites   *budget.Sites                                  // the peers of divided, where they were asked
	leaves  bool                                           // the request takes the pod out of the budget, now or by the garbage collector
}

// parts reports whether a change takes a pod out of the budget, or out of a group of it.
func (c *covering) parts(before, after *corev1.Pod, beforeChain, afterChain []workload.Owner) bool {
	if c.matcher.Leaves(before, after, beforeChain, afterChain) {
		return true
	}
	return c.divided != nil && !c.matcher.Exempts(before) && placeOf(c.divided, before) != placeOf(c.divided, after)
}

func (r *Reader) covering(ctx context.Context, pod *corev1.Pod, chain []workload.Owner, most int) ([]covering, error) {
	candidates, err := cluster.BudgetsFor(ctx, r.cached, pod.Namespace, pod.Labels, chain)
	if err != nil {
		return nil, err
	}
	divided, err := cluster.DistributedBudgetsFor(ctx, r.cached, pod.Namespace, pod.Labels)
	return append(matching(candidates, pod, chain, most), dividing(divided, pod, most)...), err
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

// dividing returns the first DistributedPodDisruptionBudgets that cover a pod.
func dividing(candidates []*limpetv1alpha1.DistributedPodDisruptionBudget, pod *corev1.Pod, most int) []covering {
	var found []covering
	for _, of := range candidates {
		if len(found) == most {
			break
		}
		object := budget.Undivided(of)
		matcher, err := budget.MatcherOf(object)
		if err == nil && matcher.Covers(pod, nil) { // see matching
			found = append(found, covering{object: object, matcher: matcher, divided: of})
		}
	}
	return found
}

// chains remembers the controllers of pods during one decision: thousands of pods have few.
type chains struct {
	cached client.Reader
	known  map[types.UID][]workload.Owner
	last   types.UID // the owner of the last pod, often that of the next one
	chain  []workload.Owner
}

func newChains(cached client.Reader) *chains {
	return &chains{cached: cached, known: map[types.UID][]workload.Owner{}}
}

// of returns the controllers of a pod, the nearest first.
func (c *chains) of(ctx context.Context, pod *corev1.Pod) ([]workload.Owner, error) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return nil, nil
	}
	if ref.UID == c.last {
		return c.chain, nil
	}
	chain, ok := c.known[ref.UID]
	if !ok {
		var err error
		if chain, err = cluster.ChainOf(ctx, c.cached, pod); err != nil {
			return nil, err
		}
		c.known[ref.UID] = chain
	}
	c.last, c.chain = ref.UID, chain
	return chain, nil
}

// pdbSettles is how long the status of a PodDisruptionBudget may have a pod as healthy that is no longer Ready.
const pdbSettles = 5 * time.Second

// mostPDBs is how many PodDisruptionBudgets of a pod are read. The API server evicts no pod
// that has more than one.
const mostPDBs = 4

// disruptionBudgets returns the PodDisruptionBudgets that select a pod, as the API server has
// them: their status is older in the cache, and an eviction that they refuse must cost nothing.
func (j *Judge) disruptionBudgets(ctx context.Context, pod *corev1.Pod) ([]budget.PDB, error) {
	selecting, err := cluster.DisruptionBudgetsFor(ctx, j.reader.cached, pod.Namespace, pod.Labels)
	if err != nil {
		return nil, err
	}
	var found []policyv1.PodDisruptionBudget
	for _, cached := range selecting[:min(len(selecting), mostPDBs)] {
		var now policyv1.PodDisruptionBudget
		switch err := j.live.Get(ctx, client.ObjectKeyFromObject(cached), &now); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("get PodDisruptionBudget %s: %w", cached.Name, err)
		default:
			found = append(found, now)
		}
	}
	return budget.PDBsOf(found, pod.Labels), nil
}

// healthy returns the pods that the status of a PodDisruptionBudget may have as healthy.
func (r *Reader) healthy(ctx context.Context, namespace string, of budget.PDB, now time.Time) (map[string]bool, error) {
	selector, err := metav1.LabelSelectorAsSelector(of.Selector)
	if err != nil {
		return nil, fmt.Errorf("read selector of PodDisruptionBudget %s: %w", of.Name, err)
	}
	all, err := r.pods(ctx, namespace)
	uids := map[string]bool{}
	for _, pod := range all {
		if workload.Alive(pod) && selector.Matches(labels.Set(pod.Labels)) &&
			(workload.Ready(pod) || budget.OutOfService(pod) && budget.SettledFor(pod, now) < pdbSettles) {
			uids[string(pod.UID)] = true
		}
	}
	return uids, err
}
