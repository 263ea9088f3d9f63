package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/console/text"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// ringOf has eleven pods in a ring, of which each three in a row may lack one, and db-10 is away.
func ringOf() *facts.Facts {
	f := &facts.Facts{Now: now}
	set := testenv.AStatefulSet("db", 11).In("shop")
	for i := range 11 {
		pod := testenv.APod(fmt.Sprintf("db-%d", i)).In("shop").On("n1").OwnedBy(set.StatefulSet)
		if i != 10 {
			pod = pod.Ready()
		}
		pod.Labels, pod.UID = map[string]string{"app": "db"}, types.UID(pod.Name)
		f.Pods = append(f.Pods, *pod.Pod)
	}
	b := limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ring"}}
	b.Spec.Selector, b.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, new(intstr.FromInt32(1))
	b.Spec.Groups = &limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{OrderBy: limpetv1alpha1.OrderOrdinal, Size: 3, Wrap: true}}
	b.Status.DisruptionsAllowed, b.Status.CurrentHealthy, b.Status.ExpectedPods, b.Status.TotalGroups, b.Status.BlockedGroups = 2, 10, 11, 11, 3
	f.Divided = []limpetv1alpha1.DistributedPodDisruptionBudget{b}
	return f
}

// TestBudgetsDrawTheRing wants the neighbours of the pod that is away to stay, in the order of the ring.
func TestBudgetsDrawTheRing(t *testing.T) {
	var out strings.Builder
	text.Budgets(&out, console.Budgets(ringOf(), "ring"))
	want := `BUDGET      KIND                             ALLOWED   HEALTHY   GROUPS          SHARE
shop/ring   DistributedPodDisruptionBudget   2         10/11     11, 3 blocked   -

● may go   ◆ must stay   ○ is away
  ◆ db-0  ◆ db-1  ● db-2  ● db-3  ● db-4  ● db-5  ● db-6  ● db-7
  ◆ db-8  ◆ db-9  ○ db-10
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestAnEvictionDrawsTheRing prints answers of the API server with the ring of the pod.
func TestAnEvictionDrawsTheRing(t *testing.T) {
	drawn := `pods of shop/ring: ● may go   ◆ must stay   ○ is away
  ◆ db-0  ◆ db-1  ● db-2  ● db-3  ● db-4  ● db-5  ● db-6  ● db-7
  ◆ db-8  ◆ db-9  ○ db-10
`
	tests := map[string]struct {
		report console.EvictionReport
		change func(*facts.Facts)
		want   string
	}{
		"allowed": {console.EvictionReport{Allowed: true}, func(*facts.Facts) {}, "eviction of shop/db-2: allowed now\n" + drawn},
		"refused": {
			console.EvictionReport{Code: 429, Message: "no", Causes: []string{"one: two"}},
			func(*facts.Facts) {},
			"eviction of shop/db-2: refused (429): no\n  one: two\n" + drawn,
		},
		"another budget lets none go": {console.EvictionReport{Allowed: true}, func(f *facts.Facts) {
			all := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
			all.Spec.Selector = f.Divided[0].Spec.Selector
			f.DisruptionBudgets = append(f.DisruptionBudgets, all)
		}, "eviction of shop/db-2: allowed now\n" + strings.ReplaceAll(drawn, "● db", "◆ db")},
		"a pod terminates": {console.EvictionReport{Allowed: true}, func(f *facts.Facts) {
			f.Pods[4].DeletionTimestamp = &metav1.Time{Time: now}
		}, "eviction of shop/db-2: allowed now\n" + strings.NewReplacer("● db-4", "○ db-4", "● db-2", "◆ db-2", "● db-3", "◆ db-3", "● db-5", "◆ db-5", "● db-6", "◆ db-6").Replace(drawn)},
		"a pod was let go": {console.EvictionReport{Allowed: true}, func(f *facts.Facts) {
			book := limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
			for use, pod := range map[string]string{"Gone": "db-4", "Placed": "db-7"} { // the second one is that of a spread
				book.Entries = append(book.Entries, limpetv1alpha1.DisruptionEntry{UID: types.UID(pod), Pod: pod, Use: use, Expires: metav1.NewMicroTime(now.Add(time.Second))})
			}
			f.Books = append(f.Books, book)
		}, "eviction of shop/db-2: allowed now\n" + strings.NewReplacer("● db-4", "○ db-4", "● db-2", "◆ db-2", "● db-3", "◆ db-3", "● db-5", "◆ db-5", "● db-6", "◆ db-6").Replace(drawn)},
		"a pod is missing": {console.EvictionReport{Allowed: true}, func(f *facts.Facts) {
			f.StatefulSets = append(f.StatefulSets, *testenv.AStatefulSet("db", 11).In("shop").StatefulSet)
			f.Pods = slices.Delete(f.Pods, 10, 11)
		}, "eviction of shop/db-2: allowed now\n" + strings.ReplaceAll(drawn, "  ○ db-10", "")},
		"without groups": {console.EvictionReport{Allowed: true}, func(f *facts.Facts) { f.Divided[0].Spec.Groups = nil }, "eviction of shop/db-2: allowed now\n"},
		"of other pods":  {console.EvictionReport{Allowed: true}, func(f *facts.Facts) { f.Pods[2].Labels = nil }, "eviction of shop/db-2: allowed now\n"},
		"owners that are not read": {console.EvictionReport{Allowed: true}, func(f *facts.Facts) {
			f.Unread = []facts.Unread{{Kind: "replicasets.apps", Reason: "you may not read them"}}
		}, "eviction of shop/db-2: allowed now\nnot read: replicasets.apps: you may not read them\n"},
		"pods that are not read": {console.EvictionReport{Allowed: true}, func(f *facts.Facts) {
			f.Unread = []facts.Unread{{Kind: "pods", Reason: "you may not read them"}}
		}, "eviction of shop/db-2: allowed now\nnot read: pods: you may not read them\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f, r := ringOf(), tc.report
			tc.change(f)
			r.Namespace, r.Pod = "shop", "db-2"
			r.Draw(f)
			var out strings.Builder
			text.Eviction(&out, r)
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestBudgetsOfSites has a budget of several sites, of which the status alone says what may go.
func TestBudgetsOfSites(t *testing.T) {
	for allowed, want := range map[int32]console.Stance{0: console.MustStay, 1: console.MayGo} {
		f := ringOf()
		b := &f.Divided[0]
		b.Spec.Groups, b.Spec.MaxUnavailable = nil, new(intstr.FromInt32(5))
		b.Spec.Federation = []limpetv1alpha1.BudgetPeer{{Cluster: "red", Name: "ring"}}
		b.Status.DisruptionsAllowed, b.Status.Shares = allowed, []limpetv1alpha1.BudgetShare{{Number: allowed + 1}}
		b.Status.FederatedStatuses = []limpetv1alpha1.FederatedStatus{{Site: "red/shop/ring", Problem: "cannot be read"}}
		r := console.Budgets(f, "ring")
		if len(r.Budgets) != 1 || *r.Budgets[0].Share != allowed+1 || len(r.Budgets[0].Problems) != 1 || r.Budgets[0].Places[0].State != want {
			t.Errorf("%d may go: %+v", allowed, r)
		}
		if names := console.Budgets(f, ""); len(names.Budgets) != 1 || names.Budgets[0].Places != nil {
			t.Errorf("without a name: %+v", names)
		}
	}
}
