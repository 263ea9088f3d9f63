package board_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/console/board"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestPlacesOfARing has a budget of three pods in a row, of which each two may lack one, and web-2 is away.
func TestPlacesOfARing(t *testing.T) {
	tests := map[string]struct {
		more   int // pods that are Ready
		unread string
		drawn  int
		want   []string // the first places
		left   int
	}{
		"a row":                     {drawn: 3, want: []string{"MayGo web-0", "MustStay web-1", "Away web-2"}},
		"a long row":                {more: 250, drawn: 200, want: []string{"MayGo web-0", "MustStay web-1", "Away web-2", "MustStay web-3", "MayGo web-4"}, left: 53},
		"too many pods to draw":     {more: 20_000, left: 20_003},
		"budgets that are not read": {unread: "poddisruptionbudgets.policy", left: 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := &facts.Facts{Now: now}
			if tc.unread != "" {
				f.Unread = []facts.Unread{{Kind: tc.unread}}
			}
			set := testenv.AStatefulSet("web", 3).In("shop")
			for i := range 3 + tc.more {
				pod := testenv.APod(fmt.Sprint("web-", i)).In("shop").OwnedBy(set.StatefulSet)
				if i != 2 {
					pod = pod.Ready()
				}
				pod.Labels, pod.UID = map[string]string{"app": "web"}, types.UID(pod.Name)
				f.Pods = append(f.Pods, *pod.Pod)
			}
			ring := limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
			ring.Spec.Selector, ring.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, new(intstr.FromInt32(1))
			ring.Spec.Groups = &limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{OrderBy: limpetv1alpha1.OrderOrdinal, Size: 2}}
			ring.Status.ExpectedPods = int32(len(f.Pods))
			f.Divided = []limpetv1alpha1.DistributedPodDisruptionBudget{ring}
			b := board.Plan(f, "").Budgets[0]
			var got []string
			for _, p := range b.Places[:min(len(b.Places), len(tc.want))] {
				got = append(got, fmt.Sprint(p.State, " ", p.Pod))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(b.Places) != tc.drawn || b.More != tc.left {
				t.Errorf("%d places, want %d; %d are left out, want %d; the first (-want +got):\n%s", len(b.Places), tc.drawn, b.More, tc.left, diff)
			}
		})
	}
}
