package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/spread/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// gaugeOf is the value of a metric without labels.
func gaugeOf(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// says waits until the message of a condition has a part.
func says(t *testing.T, ws *appsv1beta1.WorkloadSpread, condition, part string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var now appsv1beta1.WorkloadSpread
		env.Read(t, client.ObjectKeyFromObject(ws), &now)
		if c := meta.FindStatusCondition(now.Status.Conditions, condition); c == nil || !strings.Contains(c.Message, part) {
			return fmt.Errorf("condition %+v, want %q in its message", c, part)
		}
		return nil
	})
}

// A spread that skips no subset tells that pods of a subset wait for a node, and when they have one.
// New pods get the subset all the same.
func TestAFixedSubsetWithoutNodesIsTold(t *testing.T) {
	registry := start(t)
	a := anApp(t, 2)
	waits := a.pod(t, "p1", "", match, matched("x"))
	ws := spreadOf(t, a, "2", nil, "x", "y")
	shows(t, ws, "x:1/1 y:0/-1 Placed")
	refusedSince(t, waits, time.Now().Add(-time.Minute))
	shows(t, ws, "x:1/1/PodWaits y:0/-1 Placed")
	env.Told(t, ws, controller.ReasonSubsetUnschedulable, "the strategy is Fixed")
	if n := gaugeOf(t, registry, "limpet_spread_unschedulable_subsets"); n != 1 {
		t.Errorf("%v subsets are counted", n)
	}
	if n := gaugeOf(t, registry, "limpet_spread_skipped_subsets"); n != 0 {
		t.Errorf("%v subsets are counted as skipped", n)
	}
	env.Remove(t, waits)
	shows(t, ws, "x:0/2 y:0/-1 Placed")
	env.Told(t, ws, controller.ReasonRecovered, "no pod of subset x waits")
}

// The subsets of a spread that is not adaptive any more lose the condition.
func TestASpreadThatIsFixedAgain(t *testing.T) {
	start(t)
	a := anApp(t, 2)
	waits := a.pod(t, "p1", "", match, matched("x"))
	refusedSince(t, waits, time.Now().Add(-time.Minute))
	ws := spreadOf(t, a, "2", func(ws *appsv1beta1.WorkloadSpread) {
		adaptive(300, appsv1beta1.ReturnNever)(ws)
		ws.Spec.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds = new(int32(3600))
	}, "x", "y")
	shows(t, ws, "x:1/1/Sufficient y:0/-1/Sufficient Placed")
	env.Patch(t, ws, `{"spec":{"scheduleStrategy":{"type":"Fixed","adaptive":null}}}`)
	shows(t, ws, "x:1/1/PodWaits y:0/-1 Placed")
	env.Remove(t, waits)
	shows(t, ws, "x:0/2 y:0/-1 Placed")
}

// The last subset of an adaptive spread is not skipped. It is told like a subset of a fixed spread.
func TestALastSubsetWithoutNodesIsTold(t *testing.T) {
	start(t)
	a := anApp(t, 2)
	waits := a.pod(t, "p1", "", match, matched("y"))
	ws := spreadOf(t, a, "2", adaptive(60, appsv1beta1.ReturnNever), "x", "y")
	refusedSince(t, waits, time.Now().Add(-time.Minute))
	shows(t, ws, "x:0/2/Sufficient y:1/-1/PodWaits Placed")
	env.Told(t, ws, controller.ReasonSubsetUnschedulable, "it is the last subset")
}

// Pods of a subset that was removed get the subset of their node. Others stay without one.
func TestPodsOfARemovedSubsetAreAdopted(t *testing.T) {
	start(t)
	a := anApp(t, 2)
	inX, inY := a.pod(t, "p1", node(t, "x"), match, matched("old")), a.pod(t, "p2", node(t, "elsewhere"), match, matched("old"))
	ws := spreadOf(t, a, "2", nil, "x", "y")
	placed(t, inX, "x")
	shows(t, ws, "x:1/1 y:0/-1 NoSubsetFits")
	says(t, ws, appsv1beta1.ConditionPlaced, "1 of 2 pods have no subset; 1 run on nodes of no subset; remedy: add these nodes to a subset, or delete these pods")
	env.Remove(t, inY)
	shows(t, ws, "x:1/1 y:0/-1 Placed")
}

// A pod under the spreads of its ReplicaSet and of its Deployment has that of its ReplicaSet. The
// other spread says so.
func TestTheNearerSpreadHasThePod(t *testing.T) {
	start(t)
	a := anApp(t, 1)
	pod := a.pod(t, "p1", node(t, "x"))
	outer := spreadOf(t, a, "2", nil, "x", "y")
	placed(t, pod, "x")
	nearer := outer.DeepCopy()
	nearer.ObjectMeta = metav1.ObjectMeta{Namespace: a.Namespace, Name: "nearer"}
	nearer.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: a.set.Name}
	env.Create(t, nearer)
	shows(t, nearer, "x:1/1 y:0/-1 Placed")
	shows(t, outer, "x:0/2 y:0/-1 PlacedNearerSpread")
	says(t, outer, appsv1beta1.ConditionNearerSpread, "1 pods have WorkloadSpread nearer")
	env.Remove(t, nearer)
	placed(t, pod, "x")
	shows(t, outer, "x:1/1 y:0/-1 Placed")
}

// Of two spreads with one target, which were made at the same moment, the first by its name has the pods. So neither
// takes them from the other again and again.
func TestOfTwoSpreadsOfATargetTheFirstHasThePods(t *testing.T) {
	start(t)
	a := anApp(t, 1)
	second := spreadOf(t, a, "2", func(ws *appsv1beta1.WorkloadSpread) { ws.Name = "ws-2" }, "x", "y")
	pod := a.pod(t, "p1", node(t, "x"))
	shows(t, second, "x:1/1 y:0/-1 Placed")
	first := spreadOf(t, a, "2", nil, "x", "y")
	placed(t, pod, "x")
	shows(t, first, "x:1/1 y:0/-1 Placed")
	shows(t, second, "x:0/2 y:0/-1 PlacedNearerSpread")
	says(t, second, appsv1beta1.ConditionNearerSpread, "1 pods have WorkloadSpread ws, ")
	env.Remove(t, first)
	shows(t, second, "x:1/1 y:0/-1 Placed")
}

// The sum of the paths of a spread is the size of which percentages are.
func TestPercentagesOfPaths(t *testing.T) {
	start(t)
	env.ServeKinds(t)
	kind := testenv.GameServers
	a := anApp(t, 1)
	spec := map[string]any{"size": int64(100), "groups": []any{
		map[string]any{"name": "hot", "size": int64(6)}, map[string]any{"name": "cold", "size": int64(4)}, map[string]any{"name": "other", "size": int64(90)},
	}}
	env.OfKind(t, kind, a.Namespace, "grouped", spec)
	ws := spreadOf(t, a, "50%", func(ws *appsv1beta1.WorkloadSpread) {
		ws.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: "grouped"}
		ws.Spec.TargetFilter = &appsv1beta1.TargetFilter{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, ReplicasPathList: []string{"spec.groups.0.size", "spec.groups.1.size"},
		}
	}, "x", "y")
	testenv.Eventually(t, func() error {
		var now appsv1beta1.WorkloadSpread
		env.Read(t, client.ObjectKeyFromObject(ws), &now)
		if len(now.Status.SubsetStatuses) != 2 || now.Status.SubsetStatuses[0].MissingReplicas != 5 {
			return fmt.Errorf("status %+v, want 5 of 10 pods", now.Status)
		}
		return nil
	})
}

// A Deployment of which no pod goes before its successor is Ready cannot roll out in a zone that is
// exactly full. That is told as soon as a size makes it so, and until there is room.
func TestARolloutWithoutRoomIsToldBeforeItBegins(t *testing.T) {
	start(t)
	a := anApp(t, 10) // maxUnavailable is 25 %
	x := testenv.ANode(env.Name("node")).Labelled(zone, "x")
	x.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}
	env.Create(t, x.Node)
	ws := spreadOf(t, a, "2", nil, "x", "y")
	a.pod(t, "p1", x.Name, match, matched("x"))
	a.pod(t, "p2", x.Name, match, matched("x"))
	a.pod(t, "p3", node(t, "y"), match, matched("y"))
	shows(t, ws, "x:2/0 y:1/-1 Placed")
	env.Patch(t, a.Deployment, `{"spec":{"replicas":3}}`)
	shows(t, ws, "x:2/0 y:1/-1 PlacedNoRoomToSurge")
	says(t, ws, appsv1beta1.ConditionRolloutBlocked, "no node of subset x has room for one pod more")

	now := &corev1.Node{}
	env.Read(t, client.ObjectKeyFromObject(x.Node), now)
	now.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("3")
	if err := env.Client.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	env.Change(t, ws, func() { ws.Spec.Subsets[0].MaxReplicas = new(intstr.FromInt32(3)) })
	shows(t, ws, "x:2/1 y:1/-1 Placed")
}
