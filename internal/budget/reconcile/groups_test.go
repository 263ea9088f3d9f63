package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// divided is a budget of one pod of each group of the pods with app=db.
func divided(ns string, groups *limpetv1alpha1.BudgetGroups) *limpetv1alpha1.DistributedPodDisruptionBudget {
	b := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}}
	b.Spec.Selector, b.Spec.Groups = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, groups
	b.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	return b
}

var ring = &limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{OrderBy: limpetv1alpha1.OrderOrdinal, Size: 3, Wrap: true}}

// showsGroups waits for a status without its conditions.
func showsGroups(t *testing.T, b *limpetv1alpha1.DistributedPodDisruptionBudget, want limpetv1alpha1.DistributedPodDisruptionBudgetStatus) {
	t.Helper()
	want.ObservedGeneration = b.Generation
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(b), b)
		got := b.Status
		got.Conditions = nil
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("status (-want +got):\n%s", diff)
		}
		return nil
	})
}

// A ring of nine lets three go together. Of nine windows, those with a pod that is away are listed.
func TestARingShowsItsNumbers(t *testing.T) {
	startReconciler(t)
	set := testenv.AStatefulSet("db", 9).In(env.Namespace(t))
	b := divided(set.Namespace, ring)
	env.Create(t, set.StatefulSet, b)
	all := pods(t, set, 9)
	showsGroups(t, b, limpetv1alpha1.DistributedPodDisruptionBudgetStatus{DisruptionsAllowed: 3, CurrentHealthy: 9, ExpectedPods: 9, TotalGroups: 9})
	env.Patch(t, all[0], `{"metadata":{"labels":{"unavailable-pod.kruise.io/mark":"x"}}}`)
	blocked := func(name string) limpetv1alpha1.BudgetGroupStatus {
		return limpetv1alpha1.BudgetGroupStatus{Name: name, CurrentHealthy: 2, DesiredHealthy: 2, ExpectedPods: 3}
	}
	showsGroups(t, b, limpetv1alpha1.DistributedPodDisruptionBudgetStatus{
		DisruptionsAllowed: 2, CurrentHealthy: 8, ExpectedPods: 9, TotalGroups: 9, BlockedGroups: 3,
		Groups: []limpetv1alpha1.BudgetGroupStatus{blocked("db-0..db-2"), blocked("db-7..db-0"), blocked("db-8..db-1")},
	})
	c := meta.FindStatusCondition(b.Status.Conditions, policyv1beta1.ConditionDisruptionAllowed)
	if c == nil || c.Message != "2 of 9 pods may become unavailable together; 3 of 9 groups let no pod go." {
		t.Errorf("condition %+v", c)
	}
	env.Patch(t, b, `{"spec":{"groups":{"sliding":null,"byLabel":"rack"}}}`) // no pod has it
	showsGroups(t, b, limpetv1alpha1.DistributedPodDisruptionBudgetStatus{
		CurrentHealthy: 8, ExpectedPods: 9, TotalGroups: 1, BlockedGroups: 1,
		Groups: []limpetv1alpha1.BudgetGroupStatus{{Name: "without rack", CurrentHealthy: 8, DesiredHealthy: 8, ExpectedPods: 9}},
	})
	c = meta.FindStatusCondition(b.Status.Conditions, policyv1beta1.ConditionDisruptionAllowed)
	want := "No pod may go, by 1 of 1 groups: group without rack needs 8 of 9 pods available (maxUnavailable 1) and has 8. Not available: db-0 (labelled unavailable)."
	if c == nil || c.Reason != budget.ReasonDisruptionNone || c.Message != want {
		t.Errorf("condition %+v, want %q", c, want)
	}
}

// Ten thousand groups without pods make no large object: the first ones are listed.
func TestTheStatusIsBounded(t *testing.T) {
	startReconciler(t)
	set := testenv.AStatefulSet("db", 10_000).In(env.Namespace(t))
	b := divided(set.Namespace, ring)
	env.Create(t, set.StatefulSet, b)
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(b), b)
		if s := b.Status; s.TotalGroups != 10_000 || s.BlockedGroups != 10_000 || len(s.Groups) != 32 || s.ExpectedPods != 10_000 {
			return fmt.Errorf("%d groups, %d blocked, %d listed", s.TotalGroups, s.BlockedGroups, len(s.Groups))
		}
		return nil
	})
}

// release removes the guard, and pods that it would keep.
func release(t *testing.T, webhooks client.Object, pods []*corev1.Pod) {
	t.Helper()
	env.Remove(t, webhooks)
	for _, pod := range pods {
		testenv.Eventually(t, func() error { return client.IgnoreNotFound(env.Client.Delete(t.Context(), pod.DeepCopy())) })
	}
}

// The condition Enforced, the label of the namespace and its value are those of any budget.
func TestADividedBudgetIsEnforced(t *testing.T) {
	m := newManager(t)
	webhooks := m.guarding(t)
	m.start(t, m.reconciler(), m.labeler(clock.RealClock{}))
	set := testenv.AStatefulSet("db", 3).In(env.Namespace(t))
	b := divided(set.Namespace, ring)
	b.Annotations = map[string]string{policyv1beta1.AnnotationFailurePolicy: "Closed"}
	env.Create(t, set.StatefulSet, b)
	all := pods(t, set, 3)
	labelled(t, set.Namespace, "closed", false)
	enforced := func(want metav1.ConditionStatus, reason string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			env.Read(t, client.ObjectKeyFromObject(b), b)
			return hasNow(policyv1beta1.PodUnavailableBudgetStatus{Conditions: b.Status.Conditions}, policyv1beta1.ConditionEnforced, want, reason, "")
		})
	}
	enforced(metav1.ConditionTrue, budget.ReasonEnforced)
	env.Patch(t, b, `{"metadata":{"annotations":{"limpet.dev/vectors":"sideways=Check"}}}`)
	enforced(metav1.ConditionFalse, budget.ReasonEnforcedOldRules)
	release(t, webhooks, all)
}

// Of two StatefulSets that wait, the one whose group has a unit is woken.
func TestAFreeUnitOfAGroupWakesItsController(t *testing.T) {
	m := startReconciler(t)
	ns := env.Namespace(t)
	b := divided(ns, &limpetv1alpha1.BudgetGroups{ByLabel: "rack"})
	env.Create(t, b)
	var waiting []ledger.Waiting
	sets := map[string]*testenv.StatefulSet{}
	for i, rack := range []string{"short", "whole"} { // the first one waits longer
		set := testenv.AStatefulSet(rack, 2).In(ns)
		set.Spec.Template.Labels = map[string]string{"app": "db", "rack": rack}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels}
		env.Create(t, set.StatefulSet)
		all := pods(t, set, 1+i)
		sets[rack] = &set
		waiting = append(waiting, ledger.Waiting{
			UID: string(all[0].UID), Pod: all[0].Name, By: "system:serviceaccount:kube-system:statefulset-controller", ByWorkload: true,
			Since: time.Now().Add(time.Duration(i)*time.Minute - time.Hour), Last: time.Now().Add(-30 * time.Second),
		})
	}
	m.waits(t, budget.Undivided(b), waiting)
	nudged := func(rack string) string {
		env.Read(t, client.ObjectKeyFromObject(sets[rack]), sets[rack].StatefulSet)
		return sets[rack].Annotations[workloads.AnnotationNudged]
	}
	testenv.Eventually(t, func() error {
		if nudged("whole") == "" {
			return fmt.Errorf("StatefulSet whole was not woken; status %+v", b.Status)
		}
		return nil
	})
	if nudged("short") != "" {
		t.Error("a StatefulSet was woken whose group has no unit")
	}
	testenv.Eventually(t, func() error { // the nudge is first
		if all, want := testenv.SeriesOf(t, m.metrics, "limpet_budget_troubles"), budget.Undivided(b).Name+" Waits "+ns; !slices.Contains(all, want) {
			return fmt.Errorf("the metric names %q, want %q among them: a group has a unit, and another one is waited for", all, want)
		}
		return nil
	})
}

// The entry of a pod that is gone ends, and its loss is none, where the namespace has budgets with groups alone.
func TestADividedBudgetKeepsTheBook(t *testing.T) {
	m := newManager(t)
	webhooks := m.guarding(t)
	m.start(t, m.reconciler(), m.labeler(clock.RealClock{}))
	set := testenv.AStatefulSet("db", 3).In(env.Namespace(t))
	b := divided(set.Namespace, ring)
	env.Create(t, set.StatefulSet, b)
	all := pods(t, set, 3)
	labelled(t, set.Namespace, "open", false)
	showsGroups(t, b, limpetv1alpha1.DistributedPodDisruptionBudgetStatus{DisruptionsAllowed: 1, CurrentHealthy: 3, ExpectedPods: 3, TotalGroups: 1})
	testenv.Eventually(t, func() error { return env.Client.Delete(t.Context(), all[0].DeepCopy()) })
	testenv.Eventually(t, func() error {
		var list limpetv1alpha1.DisruptionBookList
		if err := env.Client.List(t.Context(), &list, client.InNamespace(set.Namespace)); err != nil {
			return err
		}
		if len(list.Items) != 1 || len(list.Items[0].Entries) != 0 || len(list.Items[0].Decisions) == 0 {
			return fmt.Errorf("books %+v, want one without entries", list.Items)
		}
		return nil
	})
	m.counted(t, map[string]float64{})
	release(t, webhooks, all)
}

// TestSharesOfFormerBudgetsGo has shares in the book of a budget that was deleted. The budget that is there has no peer.
func TestSharesOfFormerBudgetsGo(t *testing.T) {
	startReconciler(t)
	ns := env.Namespace(t)
	book := &limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "00000000-0000-0000-0000-000000000000"}}
	book.Shares = []limpetv1alpha1.BudgetShare{{Budget: "dpdb/former", UID: "former", Group: "g"}}
	for i := range 17 { // the most that spec.federation takes
		book.Shares[0].Units = append(book.Shares[0].Units, limpetv1alpha1.PeerUnits{Site: fmt.Sprint("/peer/", i)})
	}
	b := divided(ns, nil)
	b.Spec.Federation = []limpetv1alpha1.BudgetPeer{{Name: "db"}}
	env.Create(t, book, b)
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(book), book)
		if len(book.Shares) != 1 || book.Shares[0].UID != b.UID {
			return fmt.Errorf("shares %+v", book.Shares)
		}
		return nil
	})
}

// TestALongProblemOfAPeerIsCut has one that is longer than a status takes.
func TestALongProblemOfAPeerIsCut(t *testing.T) {
	m := newManager(t)
	r := m.reconciler()
	r.Peers.Cluster, r.Peers.Kubeconfig = "blue", "/"+strings.Repeat("x", 600)
	m.start(t, r)
	b := divided(env.Namespace(t), nil)
	b.Spec.Federation = []limpetv1alpha1.BudgetPeer{{Cluster: "red", Name: "db"}}
	env.Create(t, b)
	testenv.Eventually(t, func() error {
		if env.Read(t, client.ObjectKeyFromObject(b), b); len(b.Status.FederatedStatuses) != 1 || b.Status.FederatedStatuses[0].Problem == "" {
			return fmt.Errorf("status %+v", b.Status)
		}
		return nil
	})
}

// ahead is a clock that a test puts forward.
type ahead struct {
	clock.RealClock
	by atomic.Int64
}

func (c *ahead) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

// TestIdleUnitsSpread has two units, which begin at one of two namespaces. Ten minutes later each has one.
func TestIdleUnitsSpread(t *testing.T) {
	m := newManager(t)
	r, now := m.reconciler(), &ahead{}
	r.Clock = now
	m.start(t, r)
	sites := []string{env.Namespace(t), env.Namespace(t)}
	var budgets []*limpetv1alpha1.DistributedPodDisruptionBudget
	var told []*corev1.Pod
	for i, ns := range sites {
		set := testenv.AStatefulSet("db", 2).In(ns)
		env.Create(t, set.StatefulSet)
		told = append(told, pods(t, set, 2)[0])
		b := divided(ns, nil)
		b.Spec.MaxUnavailable = new(intstr.FromInt32(2))
		b.Spec.Federation = []limpetv1alpha1.BudgetPeer{{Namespace: sites[1-i], Name: "db"}}
		env.Create(t, b)
		budgets = append(budgets, b)
	}
	shares := []int32{0, 0}
	testenv.Eventually(t, func() error {
		for i, b := range budgets {
			env.Patch(t, told[i], fmt.Sprintf(`{"metadata":{"annotations":{"example.com/look":"%d"}}}`, time.Now().UnixNano())) // an event
			env.Read(t, client.ObjectKeyFromObject(b), b)
			if len(b.Status.Shares) != 1 || !b.Status.Shares[0].Open {
				return fmt.Errorf("shares %+v", b.Status.Shares)
			}
			shares[i] = b.Status.Shares[0].Number
		}
		if shares[0]+shares[1] == 2 && shares[0] != 1 {
			now.by.Store(int64(11 * time.Minute))
		}
		if shares[0] != 1 || shares[1] != 1 {
			return fmt.Errorf("shares %d", shares)
		}
		return nil
	})
	if now.by.Load() == 0 {
		t.Error("the units did not begin at one site")
	}
}
