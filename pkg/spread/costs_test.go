package spread_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/pkg/spread"
)

// counted tells how many pods have each cost.
func counted(costs map[types.UID]int32) map[int32]int {
	sum := map[int32]int{}
	for _, cost := range costs {
		sum[cost]++
	}
	return sum
}

// The values are those of OpenKruise.
func TestCosts(t *testing.T) {
	abc := of(inZone("a", 10), inZone("b", 10), inZone("c", -1))
	for name, tc := range map[string]struct {
		spread spread.Spread
		pods   map[string]int
		old    bool
		want   map[int32]int
	}{
		"within the maxima":            {abc, map[string]int{"a": 10, "b": 10, "c": 10}, false, map[int32]int{300: 10, 200: 10, 100: 10}},
		"beyond the maxima":            {abc, map[string]int{"a": 20, "b": 20, "c": 20}, false, map[int32]int{300: 10, -100: 10, 200: 10, -200: 10, 100: 20}},
		"without a subset":             {abc, map[string]int{"": 2, "x": 3}, false, map[int32]int{-400: 5}},
		"two subsets":                  {of(inZone("a", 1), inZone("b", 1)), map[string]int{"a": 1, "b": 1, "": 1}, false, map[int32]int{200: 1, 100: 1, -300: 1}},
		"one subset":                   {of(inZone("a", -1)), map[string]int{"a": 1, "": 1}, false, map[int32]int{100: 1, -200: 1}},
		"an old revision":              {abc, map[string]int{"a": 10, "b": 10, "c": 10}, true, map[int32]int{100: 10, 200: 10, 300: 10}},
		"an old revision beyond":       {abc, map[string]int{"a": 11, "b": 12, "c": 1, "": 1}, true, map[int32]int{100: 10, -300: 1, 200: 10, -200: 2, 300: 1, -400: 1}},
		"a maximum of 0":               {of(inZone("a", 0), inZone("b", -1)), map[string]int{"a": 2}, false, map[int32]int{-100: 2}},
		"a spread without any subsets": {of(), map[string]int{"a": 1}, false, map[int32]int{-100: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			in := spread.CostInput{Spread: tc.spread, Old: tc.old, Subsets: map[types.UID]string{}}
			for subset, n := range tc.pods {
				for i := range n {
					p := aPod(fmt.Sprint(subset, i), "n")
					in.Pods = append(in.Pods, p)
					if subset != "" {
						in.Subsets[p.UID] = subset
					}
				}
			}
			if diff := cmp.Diff(tc.want, counted(spread.Costs(in))); diff != "" {
				t.Errorf("pods by cost (-want +got):\n%s", diff)
			}
		})
	}
}

// The pods beyond the maximum are those that a ReplicaSet would delete first.
func TestCostsOfPodsBeyondTheMaximum(t *testing.T) {
	ready := func(name string, since time.Duration) *corev1.Pod {
		p := aPod(name, "n")
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start.Add(-since))}}
		return p
	}
	restarted := ready("restarted", time.Hour)
	restarted.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2}}
	younger := ready("younger", time.Hour)
	younger.CreationTimestamp = metav1.NewTime(start.Add(time.Minute))
	unready := aPod("unready", "n")
	unready.Status.Phase = corev1.PodRunning
	unknown, pending, unbound := aPod("unknown", "n"), aPod("pending", "n"), aPod("unbound", "")
	unknown.Status.Phase, pending.Status.Phase, unbound.Status.Phase = corev1.PodUnknown, corev1.PodPending, corev1.PodRunning
	order := []*corev1.Pod{unbound, pending, unknown, unready, ready("shortly", time.Minute), restarted, younger, ready("1", time.Hour), ready("2", time.Hour)}
	subsets := map[types.UID]string{}
	for _, p := range order {
		subsets[p.UID] = "a"
	}
	for beyond := range order {
		most := int32(len(order) - beyond)
		for turn := range order { // the order of the input does not count
			pods := append(append([]*corev1.Pod{}, order[turn:]...), order[:turn]...)
			costs := spread.Costs(spread.CostInput{Spread: of(inZone("a", most)), Pods: pods, Subsets: subsets})
			for i, p := range order {
				if (costs[p.UID] < 0) != (i < beyond) {
					t.Fatalf("%d beyond the maximum: pod %s has the cost %d", beyond, p.Name, costs[p.UID])
				}
			}
		}
	}
}
