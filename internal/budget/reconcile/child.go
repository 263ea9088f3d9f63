package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// limit is what a child says: how many pods may be unavailable, or must be available.
type limit struct {
	least  bool
	number int32
}

// limitOf is that of shares: of several the least, and no pod while one is closed.
func limitOf(shares []ledger.Share) limit {
	if len(shares) == 0 || slices.ContainsFunc(shares, func(s ledger.Share) bool { return !s.Open }) {
		return limit{}
	}
	l := limit{shares[0].Least, max(shares[0].Number(), 0)}
	for _, s := range shares[1:] { // of a ring, where none is the least
		l.number = min(l.number, max(s.Number(), 0))
	}
	return l
}

// and lets a pod go that both limits let go.
func (l limit) and(other limit) limit {
	switch {
	case l.least != other.least:
		return limit{}
	case l.least:
		return limit{true, max(l.number, other.number)}
	}
	return limit{false, min(l.number, other.number)}
}

// limit of the shares that the book has.
func (s *situation) limit(book ledger.Book) limit {
	return limitOf(ledger.SharesOf(book, s.pub.Name, string(s.pub.UID)))
}

// hasChild reports whether the budget asks for a child, or may still have one.
func (s *situation) hasChild() bool {
	return s.divided != nil && (s.divided.Spec.Child != "" || s.namesake)
}

// child brings the child of a budget in line with its shares. Before units are sent, it lets no more pods go than will
// be right afterwards; after they were taken, it lets more go.
func (r *Reconciler) child(ctx context.Context, s *situation, want limit, before bool) error {
	if s.refused, s.sizeless, s.evicts = "", false, false; !s.hasChild() {
		return nil
	}
	now := &policyv1.PodDisruptionBudget{}
	err := r.Peers.Live.Get(ctx, client.ObjectKeyFromObject(s.divided), now)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get PodDisruptionBudget %s: %w", client.ObjectKeyFromObject(s.divided), err)
	}
	found := err == nil
	s.sizeless = found && len(s.covered.Pods) > 0 && sizeless(now)
	owned := found && metav1.IsControlledBy(now, s.divided)
	if s.other, err = r.otherThan(ctx, s, found && !owned); err != nil {
		return err
	}
	switch {
	case s.divided.Spec.Child == "" || s.other != "":
		if owned {
			err = client.IgnoreNotFound(r.Client.Delete(ctx, now, client.Preconditions{UID: &now.UID}))
		}
	case !found && s.divided.DeletionTimestamp != nil: // the garbage collector took it
	case !found:
		if err = r.Client.Create(ctx, s.childOf(want)); apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			s.refused, err = err.Error(), nil // by its selector, a quota or a policy of others: the budget goes on without
		}
	case !before && looser(now, want) && !r.sure(ctx, s, want): // the next look has the newest book
	case before:
		err = r.changeChild(ctx, s, now, want.and(limitIn(now)))
	default:
		err = r.changeChild(ctx, s, now, want)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("write the PodDisruptionBudget of %s in namespace %s: %w", budget.Title(s.pub.Name), s.pub.Namespace, err)
	}
	return nil
}

func (r *Reconciler) changeChild(ctx context.Context, s *situation, now *policyv1.PodDisruptionBudget, want limit) error {
	after := now.DeepCopy()
	after.Spec = s.childOf(want).Spec
	differs := !equality.Semantic.DeepEqual(now.Spec, after.Spec)
	if s.evicts = differs || evicts(now); !differs {
		return nil
	}
	return r.Client.Update(ctx, after) //nolint:wrapcheck // the caller wraps it
}

// evicts reports whether a child may have permitted an eviction whose pod it still counts: its former limit holds until
// Kubernetes has counted by the present one.
func evicts(child *policyv1.PodDisruptionBudget) bool {
	return child.Status.ObservedGeneration != child.Generation || len(child.Status.DisruptedPods) > 0
}

// sizeless reports whether Kubernetes lets no pod of a child go because it cannot read how many pods their workloads want:
// they have none, or one without the subresource scale.
func sizeless(child *policyv1.PodDisruptionBudget) bool {
	c := meta.FindStatusCondition(child.Status.Conditions, policyv1.DisruptionAllowedCondition)
	l := limitIn(child)
	return !l.least && l.number > 0 && (c != nil && c.Reason == policyv1.SyncFailedReason || child.Status.ObservedGeneration == child.Generation && child.Status.ExpectedPods == 0)
}

// sure reports whether the newest book has a limit.
func (r *Reconciler) sure(ctx context.Context, s *situation, want limit) bool {
	book, err := r.Books.Decide(ctx, books.OfBudgets(s.pub.Namespace), func(book ledger.Book) (ledger.Book, bool) { return book, false })
	return err == nil && s.limit(book) == want
}

// limitIn is what a child says.
func limitIn(child *policyv1.PodDisruptionBudget) limit {
	if v := child.Spec.MinAvailable; v != nil {
		return limit{true, v.IntVal}
	}
	if v := child.Spec.MaxUnavailable; v != nil {
		return limit{false, v.IntVal}
	}
	return limit{}
}

func looser(child *policyv1.PodDisruptionBudget, want limit) bool {
	return want.and(limitIn(child)) != want
}

// childOf is the child with a limit.
func (s *situation) childOf(l limit) *policyv1.PodDisruptionBudget {
	of := s.divided
	child := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name, OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(of, limpetv1alpha1.GroupVersion.WithKind("DistributedPodDisruptionBudget")),
	}}}
	child.OwnerReferences[0].BlockOwnerDeletion = nil // that needs a right
	number := new(intstr.FromInt32(l.number))
	if child.Spec.MaxUnavailable = number; l.least {
		child.Spec.MaxUnavailable, child.Spec.MinAvailable = nil, number
	}
	child.Spec.Selector = of.Spec.Selector
	if !s.covered.Budget.Rules.ProtectUnready {
		child.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	}
	return child
}

// otherThan says which other budget keeps the child away: Kubernetes answers 500 for a pod with two PodDisruptionBudgets.
func (r *Reconciler) otherThan(ctx context.Context, s *situation, taken bool) (string, error) {
	if taken {
		return "PodDisruptionBudget " + s.divided.Name, nil
	}
	var last map[string]string
	for _, pod := range s.covered.Pods {
		if maps.Equal(last, pod.Labels) {
			continue
		}
		last = pod.Labels
		others, err := cluster.DistributedBudgetsFor(ctx, r.Client, pod.Namespace, pod.Labels)
		if err != nil {
			return "", err
		}
		for _, other := range others {
			matcher, err := budget.MatcherOf(budget.Undivided(other))
			if err == nil && other.Name != s.divided.Name && other.Spec.Child != "" && matcher.Covers(pod, nil) {
				return "DistributedPodDisruptionBudget " + other.Name, nil
			}
		}
		plain, err := cluster.DisruptionBudgetsFor(ctx, r.Client, pod.Namespace, pod.Labels)
		if err != nil {
			return "", err
		}
		for _, other := range plain {
			if other.Name != s.divided.Name {
				return "PodDisruptionBudget " + other.Name, nil
			}
		}
	}
	return "", nil
}

// childCondition says whether the budget has its child.
func (s *situation) childCondition() metav1.Condition {
	c := metav1.Condition{Type: budget.ConditionChild, Status: metav1.ConditionTrue, Reason: budget.ReasonChildKept, Message: "PodDisruptionBudget " + s.divided.Name + " says what the share does."}
	if s.sizeless {
		c.Status, c.Reason = metav1.ConditionFalse, budget.ReasonChildNoSize
		c.Message = fmt.Sprintf("PodDisruptionBudget %s lets no pod be evicted: Kubernetes cannot read how many pods there shall be. Use minAvailable, or no child.", s.divided.Name)
	}
	if s.other != "" {
		c.Status, c.Reason = metav1.ConditionFalse, budget.ReasonChildOther
		c.Message = fmt.Sprintf("There is no PodDisruptionBudget of the share: %s selects the same pods or has the name, and Kubernetes evicts no pod that has two.", s.other)
	}
	if s.refused != "" {
		c.Status, c.Reason = metav1.ConditionFalse, budget.ReasonChildRefused
		c.Message = shortened("There is no PodDisruptionBudget of the share: "+s.refused, longestProblem)
	}
	return c
}

// children are the requests for the budgets of a namespace that ask for a child.
func (r *Reconciler) children(ctx context.Context, namespace string) []client.ObjectKey {
	var all limpetv1alpha1.DistributedPodDisruptionBudgetList
	if err := r.Client.List(ctx, &all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil { // see covering
		return nil
	}
	var found []client.ObjectKey
	for i := range all.Items {
		if all.Items[i].Spec.Child != "" {
			found = append(found, client.ObjectKey{Namespace: namespace, Name: budget.NameOf(all.Items[i].Name)})
		}
	}
	return found
}
