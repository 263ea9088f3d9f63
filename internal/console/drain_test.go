package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// drained are the facts of two nodes: on n1 three pods of a StatefulSet, and what a case adds.
func drained(required bool, change func(*facts.Facts)) *facts.Facts {
	set := testenv.AStatefulSet("web", 3).In("shop")
	state := testenv.APersistentPodState("web").In("shop")
	if required {
		state = state.Requires(corev1.LabelHostname)
	} else {
		state = state.Prefers(100, corev1.LabelHostname)
	}
	f := &facts.Facts{Now: now}
	for _, name := range []string{"n1", "n2"} {
		f.Nodes = append(f.Nodes, *testenv.ANode(name).Labelled(corev1.LabelHostname, name).Node)
	}
	for i := range 3 {
		name := fmt.Sprintf("web-%d", i)
		state = state.Recorded(name, "n1", map[string]string{corev1.LabelHostname: "n1"})
		pod := testenv.APod(name).In("shop").On("n1").OwnedBy(set.StatefulSet).Ready()
		pod.Labels = map[string]string{"app": "web"}
		f.Pods = append(f.Pods, *pod.Pod)
	}
	f.States = []appsv1beta1.PersistentPodState{*state.PersistentPodState}
	if change != nil {
		change(f)
	}
	return f
}

// budgetOf is a budget of the three pods with app=web, with its units.
func budgetOf(desired, allowed int32) policyv1beta1.PodUnavailableBudget {
	b := policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	b.Status.TotalReplicas, b.Status.DesiredAvailable, b.Status.UnavailableAllowed = 3, desired, allowed
	return b
}

func TestPlanDrain(t *testing.T) {
	tests := map[string]struct {
		required bool
		change   func(*facts.Facts)
		want     []string // pod, outcome, wave
		waves    int
		least    int // waves in any order
	}{
		"pods with a preferred node move at once": {
			want: []string{"web-0 Moves 1", "web-1 Moves 1", "web-2 Moves 1"}, waves: 1, least: 1,
		},
		"pods with a required node wait for it": {
			required: true,
			want:     []string{"web-0 Returns 1", "web-1 Returns 1", "web-2 Returns 1"}, waves: 1, least: 1,
		},
		"a budget of one makes three waves": {
			change: func(f *facts.Facts) { f.Budgets = append(f.Budgets, budgetOf(2, 1)) },
			want:   []string{"web-0 Moves 1", "web-1 Moves 2", "web-2 Moves 3"}, waves: 3, least: 3,
		},
		"a pod that is unavailable before the drain takes the first wave": {
			change: func(f *facts.Facts) { f.Budgets = append(f.Budgets, budgetOf(1, 0)) },
			want:   []string{"web-0 Moves 2", "web-1 Moves 2", "web-2 Moves 3"}, waves: 3, least: 2,
		},
		"pods that wait for their node hold the units of the others": {
			required: true,
			change:   func(f *facts.Facts) { f.Budgets = append(f.Budgets, budgetOf(1, 2)) },
			want:     []string{"web-0 Returns 1", "web-1 Returns 1", "web-2 Returns 0"}, waves: 1, least: 1,
		},
		"a budget that permits none": {
			change: func(f *facts.Facts) { f.Budgets = append(f.Budgets, budgetOf(3, 0)) },
			want:   []string{"web-0 Moves 0", "web-1 Moves 0", "web-2 Moves 0"},
		},
		"the tighter of two budgets counts": {
			change: func(f *facts.Facts) {
				f.Budgets = append(f.Budgets, budgetOf(1, 2))
				f.DisruptionBudgets = append(f.DisruptionBudgets, policyv1.PodDisruptionBudget{
					ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
					Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
					Status:     policyv1.PodDisruptionBudgetStatus{ExpectedPods: 3, DesiredHealthy: 2, DisruptionsAllowed: 1},
				})
			},
			want: []string{"web-0 Moves 1", "web-1 Moves 2", "web-2 Moves 3"}, waves: 3, least: 3,
		},
		"a pod that terminates needs no unit": {
			change: func(f *facts.Facts) {
				f.Budgets = append(f.Budgets, budgetOf(2, 0))
				f.Pods[0].DeletionTimestamp = &metav1.Time{Time: now}
			},
			want: []string{"web-0 Moves 1", "web-1 Moves 2", "web-2 Moves 3"}, waves: 3, least: 2,
		},
		"a surge lets more go at first than the budget does": {
			change: func(f *facts.Facts) { f.Budgets = append(f.Budgets, budgetOf(2, 3)) },
			want:   []string{"web-0 Moves 1", "web-1 Moves 1", "web-2 Moves 1"}, waves: 1, least: 1,
		},
		"neighbours of a row go in two waves": {
			change: func(f *facts.Facts) {
				b := limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
				b.Spec.Selector, b.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, new(intstr.FromInt32(1))
				b.Spec.Groups = &limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{OrderBy: limpetv1alpha1.OrderOrdinal, Size: 2}}
				f.Divided = append(f.Divided, b)
				for i := range f.Pods {
					f.Pods[i].UID = types.UID(f.Pods[i].Name)
				}
			},
			want: []string{"web-0 Moves 1", "web-1 Moves 2", "web-2 Moves 1"}, waves: 2, least: 2,
		},
		"a budget of another namespace does not count": {
			change: func(f *facts.Facts) {
				b := budgetOf(3, 0)
				b.Namespace = "other"
				f.Budgets = append(f.Budgets, b)
			},
			want: []string{"web-0 Moves 1", "web-1 Moves 1", "web-2 Moves 1"}, waves: 1, least: 1,
		},
		"pods of DaemonSets stay, and pods without a controller end": {
			change: func(f *facts.Facts) {
				f.Pods[0].OwnerReferences[0].Kind = "DaemonSet"
				f.Pods[1].OwnerReferences = nil
			},
			want: []string{"web-0 Stays 0", "web-1 Ends 1", "web-2 Moves 1"}, waves: 1, least: 1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := console.PlanDrain(drained(tc.required, tc.change), []string{"n1"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range r.Pods {
				got = append(got, fmt.Sprintf("%s %s %d", d.Pod, d.Outcome, d.Wave))
				if (d.Wave == 0) != (d.Blocked != "") && d.Outcome != console.Stays {
					t.Errorf("%s has wave %d, and is blocked by %q", d.Pod, d.Wave, d.Blocked)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || r.Waves != tc.waves || r.LeastWaves != tc.least {
				t.Errorf("%d waves, want %d; at least %d, want %d; pods (-want +got):\n%s", r.Waves, tc.waves, r.LeastWaves, tc.least, diff)
			}
		})
	}
}

// TestPlanDrainTellsWhatFollows has one pod that takes its address along.
func TestPlanDrainTellsWhatFollows(t *testing.T) {
	r, err := console.PlanDrain(drained(false, func(f *facts.Facts) {
		f.Pods[0].Annotations = map[string]string{reservation.ModeAnnotation: reservation.Follow.String()}
	}), []string{"n1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Pods {
		if strings.HasSuffix(d.Why, "; its address follows it") != (d.Pod == "web-0") {
			t.Errorf("%s %s: %s", d.Pod, d.Outcome, d.Why)
		}
	}
}

func TestPlanDrainOfAnUnknownNode(t *testing.T) {
	if _, err := console.PlanDrain(drained(false, nil), []string{"n9"}); err == nil {
		t.Error("a node that does not exist is accepted")
	}
}
