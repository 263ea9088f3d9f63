package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// mostGroups is how many groups a status names; the schema takes no more.
const mostGroups = 32

// budgetsOf lists the budgets of a namespace, those of the other kind as budget.Undivided has them.
func budgetsOf(ctx context.Context, c client.Reader, namespace string, options ...client.ListOption) ([]policyv1beta1.PodUnavailableBudget, error) {
	options = append(options, client.InNamespace(namespace))
	var list policyv1beta1.PodUnavailableBudgetList
	if err := c.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("list PodUnavailableBudgets in namespace %s: %w", namespace, err)
	}
	var others limpetv1alpha1.DistributedPodDisruptionBudgetList
	if err := c.List(ctx, &others, options...); err != nil && !cluster.NotServed(err) { // a chart is upgraded without its CRDs
		return nil, fmt.Errorf("list DistributedPodDisruptionBudgets in namespace %s: %w", namespace, err)
	}
	for i := range others.Items {
		list.Items = append(list.Items, *budget.Undivided(&others.Items[i]))
	}
	return list.Items, nil
}

// object is the budget as it is stored.
func (s *situation) object() runtime.Object {
	if s.divided != nil {
		return s.divided
	}
	return s.pub
}

// explain says what a budget needs and has: of a divided one the first group that lets a pod not go, or any pod.
func (s *situation) explain(pod string) string {
	for i := range s.groups {
		b := &s.groups[i]
		if s.counts[i].Allowed == 0 && (pod == "" || slices.ContainsFunc(b.Pods, func(p budget.Pod) bool { return p.Name == pod })) {
			return strings.TrimPrefix("group "+b.Group+" ", "group  ") + budget.Explain(*b, s.book, s.now)
		}
	}
	return budget.Explain(s.covered.Budget, s.book, s.now)
}

// statusDivided is status for a divided budget. The numbers are those of all groups.
func (s *situation) statusDivided() policyv1beta1.PodUnavailableBudgetStatus {
	s.groups = budget.Local(s.groups, s.book)
	n := budget.Count(s.covered.Budget, s.book, s.now)
	n.Desired, n.Allowed, s.counts = 0, budget.Together(s.groups, s.book, s.now), nil
	for i := range s.groups {
		s.counts = append(s.counts, budget.Count(s.groups[i], s.book, s.now))
		n.Desired += s.counts[i].Desired // 0 where no group protects a pod
	}
	allowed := budget.DividedAllowedOf(n, s.blocked(), len(s.groups), s.explain(""))
	conditions := []metav1.Condition{s.shared(allowed), s.enforced()}
	if s.divided.Spec.Child != "" {
		conditions = append(conditions, s.childCondition())
	}
	shown := shownOf(s.pub, n, s.book, nil, conditions)
	if s.divided.Spec.Child == "" {
		meta.RemoveStatusCondition(&shown.Conditions, budget.ConditionChild)
	}
	return shown
}

// blocked is how many groups let no pod go.
func (s *situation) blocked() (n int) {
	for i := range s.counts {
		if s.counts[i].Allowed == 0 {
			n++
		}
	}
	return n
}

// writeDivided writes the status of a divided budget.
func (r *Reconciler) writeDivided(ctx context.Context, s *situation, of policyv1beta1.PodUnavailableBudgetStatus) error {
	status := limpetv1alpha1.DistributedPodDisruptionBudgetStatus{
		ObservedGeneration: of.ObservedGeneration, DisruptionsAllowed: of.UnavailableAllowed, CurrentHealthy: of.CurrentAvailable,
		ExpectedPods: of.TotalReplicas, TotalGroups: int32(len(s.groups)), BlockedGroups: int32(s.blocked()), Conditions: of.Conditions,
	}
	for i := range s.groups {
		n := s.counts[i]
		if (n.Allowed == 0 || n.Current < n.Total) && len(status.Groups) < mostGroups {
			status.Groups = append(status.Groups, limpetv1alpha1.BudgetGroupStatus{
				Name: s.groups[i].Group, DisruptionsAllowed: n.Allowed, CurrentHealthy: n.Current, DesiredHealthy: n.Desired, ExpectedPods: n.Total,
			})
		}
	}
	s.showSites(&status)
	if equality.Semantic.DeepEqual(s.divided.Status, status) {
		return nil
	}
	after := s.divided.DeepCopy()
	after.Status = status
	err := r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(s.divided, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("write status of %s in namespace %s: %w", budget.Title(s.pub.Name), s.pub.Namespace, err)
	}
	s.pub.ResourceVersion = after.ResourceVersion
	return nil
}

// mayGo tells which pods have a unit of each of their groups.
func (s *situation) mayGo() func(types.UID) bool {
	if s.divided == nil {
		return func(types.UID) bool { return true }
	}
	stays := map[string]bool{}
	for i := range s.groups {
		if s.counts[i].Allowed > 0 {
			continue
		}
		for _, p := range s.groups[i].Pods {
			stays[p.UID] = true
		}
	}
	return func(pod types.UID) bool { return !stays[string(pod)] }
}
