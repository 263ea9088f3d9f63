package guard_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget/guard"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// divided is a budget of the pods with the label app=db.
func divided(ns string, most intstr.IntOrString, groups *limpetv1alpha1.BudgetGroups) *limpetv1alpha1.DistributedPodDisruptionBudget {
	return &limpetv1alpha1.DistributedPodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"},
		Spec: limpetv1alpha1.DistributedPodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, MaxUnavailable: &most, Groups: groups,
		},
	}
}

var byRack = &limpetv1alpha1.BudgetGroups{ByLabel: "rack"}

func ring(size int32) *limpetv1alpha1.BudgetGroups {
	return &limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{OrderBy: limpetv1alpha1.OrderOrdinal, Size: size, Step: 1, Wrap: true}}
}

// members creates a StatefulSet with the label app=db and Ready pods; those after present do not exist yet.
func members(t *testing.T, ns, name string, labels map[string]string, replicas, present int) []*corev1.Pod {
	t.Helper()
	set := testenv.AStatefulSet(name, int32(replicas)).In(ns)
	set.Spec.Template.Labels = map[string]string{"app": "db"}
	maps.Copy(set.Spec.Template.Labels, labels)
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels}
	put(t, set.StatefulSet)
	var all []*corev1.Pod
	for i := range present {
		pod := aPod(set, i)
		pod.Labels = set.Spec.Template.Labels
		create(t, pod)
		all = append(all, pod)
	}
	for _, pod := range all {
		known(t, serving.GetCache(), pod)
	}
	return all
}

// refusedSaying fails unless a request was refused, with a text in its message.
func refusedSaying(t *testing.T, err error, text string) {
	t.Helper()
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), text) {
		t.Errorf("answer %v, want a refusal that says %q", err, text)
	}
}

func passes(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("answer %v, want that the pod may go", err)
	}
}

// Each rack has units of its own: one budget over a StatefulSet for each rack.
func TestEachGroupHasItsUnits(t *testing.T) {
	serve(t)
	ns := guarded(t)
	put(t, divided(ns, intstr.FromInt32(1), byRack))
	a, b := members(t, ns, "db-a", map[string]string{"rack": "a"}, 3, 3), members(t, ns, "db-b", map[string]string{"rack": "b"}, 3, 3)
	passes(t, evictAs(t.Context(), env.Client, a[0]))
	passes(t, evictAs(t.Context(), env.Client, b[0]))
	err := evictAs(t.Context(), env.Client, a[1])
	refusedSaying(t, err, "DistributedPodDisruptionBudget db, group rack=a needs 2 of 3 pods available (maxUnavailable 1) and has 2. Not available: db-a-0")
	refusedBy(t, err, "db")
	refusedBy(t, inTime(t.Context(), func() error { return plainly(deletePod)(t, b[1]) }), "db")
	if all := booksOf(t, ns); len(all) != 1 || len(all[0].Entries) != 2 {
		t.Errorf("books %+v, want one with two entries", all)
	}
}

// A StatefulSet is a ring of nine: at most one pod of three in a row is away, so that three are at once.
func TestARingInOneObject(t *testing.T) {
	serve(t)
	ns := guarded(t)
	put(t, divided(ns, intstr.FromInt32(1), ring(3)))
	pods := members(t, ns, "db", nil, 9, 9)
	passes(t, evictAs(t.Context(), env.Client, pods[0]))
	for i, groups := range map[int]int{1: 2, 2: 1, 7: 1, 8: 2} {
		refusedBy(t, evictAs(t.Context(), env.Client, pods[i], metav1.DryRunAll), make([]string, groups)...)
	}
	passes(t, evictAs(t.Context(), env.Client, pods[4], metav1.DryRunAll)) // takes nothing
	passes(t, evictAs(t.Context(), env.Client, pods[3]))
	refusedSaying(t, evictAs(t.Context(), env.Client, pods[4]), "group db-2..db-4 needs 2 of 3")
	passes(t, evictAs(t.Context(), env.Client, pods[6]))
	for _, i := range []int{1, 2, 4, 5, 7, 8} {
		refusedBy(t, evictAs(t.Context(), env.Client, pods[i]), "one", "two", "three")
	}
}

// Pods that do not exist at this moment are away: a replica by its ordinal, a pod of a template by its label, and one
// without a known place in each group.
func TestPodsThatDoNotExistAreAway(t *testing.T) {
	serve(t)
	t.Run("ring", func(t *testing.T) {
		ns := guarded(t)
		put(t, divided(ns, intstr.FromInt32(1), ring(3)))
		pods := members(t, ns, "db", nil, 9, 8)
		refusedSaying(t, evictAs(t.Context(), env.Client, pods[0]), "group db-7..db-0 needs 2 of 3 pods available (maxUnavailable 1) and has 2. Not available: 1 not created")
		passes(t, evictAs(t.Context(), env.Client, pods[4]))
	})
	t.Run("label of the template", func(t *testing.T) {
		ns := guarded(t)
		put(t, divided(ns, intstr.FromInt32(1), byRack))
		a, b := members(t, ns, "db-a", map[string]string{"rack": "a"}, 3, 2), members(t, ns, "db-b", map[string]string{"rack": "b"}, 3, 3)
		refusedSaying(t, evictAs(t.Context(), env.Client, a[0]), "group rack=a needs 2 of 3 pods available (maxUnavailable 1) and has 2. Not available: 1 not created")
		passes(t, evictAs(t.Context(), env.Client, b[0]))
	})
	t.Run("label stamped on pods", func(t *testing.T) {
		ns := guarded(t)
		put(t, divided(ns, intstr.FromInt32(1), byRack))
		set := testenv.AStatefulSet("db", 5).In(ns)
		set.Spec.Template.Labels = map[string]string{"app": "db"}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels}
		put(t, set.StatefulSet)
		var pods []*corev1.Pod
		for i, rack := range []string{"a", "a", "b", "b"} {
			pods = append(pods, aPod(set, i))
			pods[i].Labels = map[string]string{"app": "db", "rack": rack}
			put(t, pods[i])
		}
		refusedSaying(t, evictAs(t.Context(), env.Client, pods[0]), "group rack=a needs 2 of 3")
		refusedSaying(t, evictAs(t.Context(), env.Client, pods[2]), "group rack=b needs 2 of 3")
		pods = append(pods, aPod(set, 4))
		pods[4].Labels = map[string]string{"app": "db", "rack": "b"}
		put(t, pods[4])
		passes(t, evictAs(t.Context(), env.Client, pods[0]))
		env.Known(t, serving.GetCache(), &corev1.PodList{})
		refusedSaying(t, evictAs(t.Context(), env.Client, pods[2]), "group rack=b needs 3 of 4") // the successor may come to any rack
	})
}

// Without groups, and by a label without a value on any pod, a budget over many StatefulSets of one replica is one
// budget.
func TestOneBudgetOverManyStatefulSets(t *testing.T) {
	serve(t)
	many := 200
	if testing.Short() {
		many = 20
	}
	for name, tc := range map[string]struct {
		groups *limpetv1alpha1.BudgetGroups
		sets   int
	}{"no groups": {nil, many}, "no such label": {&limpetv1alpha1.BudgetGroups{ByLabel: "none"}, 6}} {
		t.Run(name, func(t *testing.T) {
			ns := guarded(t)
			put(t, divided(ns, intstr.FromInt32(2), tc.groups))
			var pods []*corev1.Pod
			for i := range tc.sets {
				pods = append(pods, members(t, ns, fmt.Sprintf("db-%d", i), nil, 1, 1)...)
			}
			passes(t, evictAs(t.Context(), env.Client, pods[0]))
			passes(t, evictAs(t.Context(), env.Client, pods[3]))
			refusedSaying(t, evictAs(t.Context(), env.Client, pods[5]), fmt.Sprintf("needs %d of %d pods available", tc.sets-2, tc.sets))
		})
	}
}

// A pod that is given another place leaves its group. Who may update the budget may do so.
func TestAPodThatGetsAnotherPlaceIsJudged(t *testing.T) {
	serve(t)
	user, ns := editor(t), guarded(t)
	put(t, divided(ns, intstr.FromInt32(0), byRack))
	pods := members(t, ns, "db-a", map[string]string{"rack": "a"}, 3, 3)
	move := func(c client.Client, edit func(*corev1.Pod)) error {
		after := pods[0].DeepCopy()
		edit(after)
		return c.Update(t.Context(), after)
	}
	for name, edit := range map[string]func(*corev1.Pod){
		"another rack": func(p *corev1.Pod) { p.Labels["rack"] = "b" },
		"no rack":      func(p *corev1.Pod) { delete(p.Labels, "rack") },
		"another app":  func(p *corev1.Pod) { p.Labels["app"] = "other" },
		"an exemption": func(p *corev1.Pod) { p.Annotations = map[string]string{"pub.kruise.io/no-protect": "true"} },
		"no owner":     func(p *corev1.Pod) { p.OwnerReferences = nil },
		"an image":     func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.com/other" },
	} {
		if err := inTime(t.Context(), func() error { return move(user, edit) }); !apierrors.IsTooManyRequests(err) {
			t.Errorf("%s: answer %v, want a refusal", name, err)
		}
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "budgets"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"limpet.dev"}, Resources: []string{"distributedpoddisruptionbudgets"}, Verbs: []string{"update"}},
	}}
	bound := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}}
	bound.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "editor"}}
	env.Create(t, role, bound)
	testenv.Eventually(t, func() error { return move(user, func(p *corev1.Pod) { p.Labels["rack"] = "b" }) })
}

// A pod has a budget with groups beside a budget without: it may go when all allow it, and no unit is taken else.
func TestGroupsBesideOtherBudgets(t *testing.T) {
	serve(t)
	ns := guarded(t)
	put(t, divided(ns, intstr.FromInt32(1), byRack), aBudget(ns, "all", "db", intstr.FromInt32(1)))
	a, b := members(t, ns, "db-a", map[string]string{"rack": "a"}, 3, 3), members(t, ns, "db-b", map[string]string{"rack": "b"}, 3, 3)
	passes(t, evictAs(t.Context(), env.Client, a[0]))
	refusedBy(t, evictAs(t.Context(), env.Client, a[1]), "all", "db")
	refusedBy(t, evictAs(t.Context(), env.Client, b[1]), "all")
	if all := booksOf(t, ns); len(all) != 1 || len(all[0].Entries) != 1 {
		t.Errorf("books %+v, want one with one entry", all)
	}
}

// Two hundred groups of three, whose pods ten drains evict through two replicas at the same time: each loses one pod.
func TestManyGroupsDecideTogether(t *testing.T) {
	const drains = 10
	many := 200
	if testing.Short() {
		many = 20
	}
	var replicas []*guard.Handler
	var caches []client.Reader
	for range 2 {
		handler, cached := replica(t)
		replicas, caches = append(replicas, handler), append(caches, cached)
	}
	var turn atomic.Int32
	install(t, admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		return replicas[turn.Add(1)%2].Handle(ctx, req)
	}))
	ns := env.Namespace(t, policyv1beta1.LabelBudgets, policyv1beta1.LabelBudgetsClosed) // an open one lets a pod go after a late answer
	create(t, divided(ns, intstr.FromInt32(1), byRack))
	var pods []*corev1.Pod
	for i := range many {
		rack := fmt.Sprint("r", i)
		set := testenv.AStatefulSet("db-"+rack, 3).In(ns)
		set.Spec.Template.Labels = map[string]string{"app": "db", "rack": rack}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels}
		create(t, set.StatefulSet)
		for j := range 3 {
			pod := aPod(set, j)
			pod.Labels = set.Spec.Template.Labels
			create(t, pod)
			pods = append(pods, pod)
		}
	}
	for _, cached := range caches {
		known(t, cached, pods[len(pods)-1])
		env.Known(t, cached, &policyv1beta1.PodUnavailableBudgetList{})
	}
	began := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	passed := map[string]int{}
	for drain := range drains {
		wg.Go(func() {
			for i := drain; i < len(pods); i += drains {
				err := evictAs(t.Context(), env.Client, pods[i])
				mu.Lock()
				if err == nil {
					passed[pods[i].Labels["rack"]]++
				} else if !apierrors.IsTooManyRequests(err) {
					t.Errorf("evict pod %s: %v", pods[i].Name, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d requests in %s", len(pods), time.Since(began))
	for rack, n := range passed {
		if n != 1 {
			t.Errorf("rack %s lost %d pods, want one", rack, n)
		}
	}
	if len(passed) != many {
		t.Errorf("%d racks lost a pod, want all %d", len(passed), many)
	}
}

// A tenant asks for two billion replicas: the guard answers all the same.
func TestASetThatAsksForBillionsIsJudged(t *testing.T) {
	serve(t)
	ns := guarded(t)
	put(t, divided(ns, intstr.FromInt32(1), ring(3)))
	pods := members(t, ns, "db", nil, 1<<31-1, 3)
	refusedBy(t, evictAs(t.Context(), env.Client, pods[0]), "db")
	scaled := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}}
	env.Patch(t, scaled, `{"spec":{"replicas":3}}`)
	known(t, serving.GetCache(), scaled)
	passes(t, evictAs(t.Context(), env.Client, pods[0]))
}

// A budget holds from the first request after it was stored, where no cache shows it yet.
func TestGroupsHoldFromTheFirstMoment(t *testing.T) {
	serve(t)
	ns := guarded(t)
	pods := members(t, ns, "db-a", map[string]string{"rack": "a"}, 3, 3)
	create(t, divided(ns, intstr.FromInt32(0), byRack))
	refusedBy(t, evictAs(t.Context(), env.Client, pods[0]), "db")
}
