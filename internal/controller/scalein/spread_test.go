package scalein_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// aSpread divides the pods of the app into zones, of which the first ones have a maximum.
func aSpread(t *testing.T, a *app, maximum intstr.IntOrString, zones ...string) *appsv1beta1.WorkloadSpread {
	t.Helper()
	ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "ws"}}
	ws.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: a.Name}
	for i, in := range zones {
		subset := appsv1beta1.WorkloadSpreadSubset{Name: "in-" + in, RequiredNodeSelector: &corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{in}}},
		}}
		if i < len(zones)-1 {
			subset.MaxReplicas = &maximum
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, subset)
	}
	env.Create(t, ws)
	return ws
}

func matched(subset string) string {
	return appsv1beta1.Match{Name: "ws", Subset: subset}.String()
}

const match = appsv1beta1.AnnotationMatchedSpread

// A spread gives its pods the costs of OpenKruise, in the reversed order for old revisions. They
// follow the maximum, and are removed with the spread.
func TestCostsOfASpread(t *testing.T) {
	start(t)
	a := anApp(t, 4, nil)
	x, y := node(t, "x"), node(t, "y")
	a.pod(t, "old-x", x, match, matched("in-x"))
	a.pod(t, "old-y", y, match, matched("in-y"), costOf, "100") // by OpenKruise
	a.pod(t, "old-before", y)                                   // the pod was there before the spread
	ws := aSpread(t, a, intstr.FromString("25%"), "x", "y")
	have(t, a.Namespace, map[string]string{"old-x": "200", "old-y": "100", "old-before": "100"})
	a.revise(t)
	have(t, a.Namespace, map[string]string{"old-x": "100", "old-y": "200", "old-before": "200"})
	a.pod(t, "new-x", x, match, matched("in-x"))
	a.pod(t, "new-y", y, match, matched("in-y"))
	a.pod(t, "new-none", "", match, matched("gone"))
	a.pod(t, "new-waits", "", match, matched("in-y"))
	have(t, a.Namespace, map[string]string{"new-x": "200", "new-y": "100", "new-none": "-300", "new-waits": "100"})
	a.pod(t, "new-z", x, match, matched("in-x"))
	have(t, a.Namespace, map[string]string{"new-x": "200", "new-z": "-100"})
	env.Patch(t, a.Deployment, `{"spec":{"replicas":8}}`)
	have(t, a.Namespace, map[string]string{"new-x": "200", "new-z": "200"})

	env.Remove(t, ws)
	want := map[string]string{}
	for _, name := range []string{"old-x", "old-y", "old-before", "new-x", "new-y", "new-none", "new-waits", "new-z"} {
		want[name] = ""
	}
	have(t, a.Namespace, want)
}

// The balanced order keeps the order of the subsets, and has layers in each of them.
func TestCostsOfABalancedSpread(t *testing.T) {
	start(t)
	a := anApp(t, 4, map[string]string{order: balanced})
	x, y := node(t, "x"), node(t, "y")
	aSpread(t, a, intstr.FromInt32(2), "x", "y")
	for i := range 3 {
		a.pod(t, fmt.Sprint("x-", i), x, match, matched("in-x"))
		a.pod(t, fmt.Sprint("y-", i), y, match, matched("in-y"))
	}
	have(t, a.Namespace, map[string]string{
		"x-0": "20000000", "x-1": "19999999", "x-2": "-10000002", "y-0": "10000000", "y-1": "9999999", "y-2": "9999998",
	})
}
