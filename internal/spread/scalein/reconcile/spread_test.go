package reconcile_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/spread/scalein/reconcile"
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
// follow the maximum, and are removed with the spread. With percentages, the costs of the newest revision
// are those of the sizes from which on the subsets have their pods: 1 and 5 of the first one, and 2.
func TestCostsOfASpread(t *testing.T) {
	start(t)
	a := anApp(t, 4, nil)
	x, y := node(t, "x"), node(t, "y")
	a.pod(t, "old-x", x, match, matched("in-x"))
	writeCost(t, a.pod(t, "old-y", y, match, matched("in-y")), "100", kruise)
	a.pod(t, "old-before", y) // the pod was there before the spread
	ws := aSpread(t, a, intstr.FromInt32(1), "x", "y")
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
	ws.Spec.Subsets[0].MaxReplicas = new(intstr.FromString("25%"))
	if err := env.Client.Update(t.Context(), ws); err != nil {
		t.Fatal(err)
	}
	have(t, a.Namespace, map[string]string{
		"new-x": "1799970000", "new-y": "1799940000", "new-z": "1799849999", "old-x": "100", "old-y": "200", "old-before": "200",
	})

	env.Remove(t, ws)
	want := map[string]string{}
	for _, name := range []string{"old-x", "old-y", "old-before", "new-x", "new-y", "new-none", "new-waits", "new-z"} {
		want[name] = ""
	}
	have(t, a.Namespace, want)
}

// Of the spreads of a pod's owners the nearest counts, and of those the first by name, as for new pods: not the oldest.
func TestCostsFollowTheNearestSpread(t *testing.T) {
	start(t)
	a := anApp(t, 2, nil)
	aSpread(t, a, intstr.FromInt32(1), "x", "y", "z")
	nearer := func(name string, subsets ...appsv1beta1.WorkloadSpreadSubset) {
		ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name}}
		ws.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: a.sets[0].Name}
		ws.Spec.Subsets = subsets
		env.Create(t, ws)
	}
	nearer("ws-near-2", appsv1beta1.WorkloadSpreadSubset{Name: "all"})
	nearer("ws-near", appsv1beta1.WorkloadSpreadSubset{Name: "all"}, appsv1beta1.WorkloadSpreadSubset{Name: "rest"})
	a.pod(t, "p", node(t, "x"))
	have(t, a.Namespace, map[string]string{"p": "200"})
}

const kruise = client.FieldOwner("kruise-manager")

// writeCost writes the deletion cost of a pod as another program does.
func writeCost(t *testing.T, pod *corev1.Pod, cost string, as client.FieldOwner) {
	t.Helper()
	text := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, costOf, cost)
	if err := env.Client.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(text)), as); err != nil {
		t.Fatal(err)
	}
}

// A user may write the very cost that OpenKruise writes for a subset. Such a cost stays and is told,
// whether it comes from a template, from kubectl, or beside OpenKruise. That of OpenKruise alone is
// taken over.
func TestACostOfAUserLikeOneOfOpenKruiseStays(t *testing.T) {
	a := anApp(t, 4, nil)
	x := node(t, "x")
	aSpread(t, a, intstr.FromInt32(1), "x", "y")
	pods := map[string]*corev1.Pod{"by-template": a.pod(t, "by-template", x, match, matched("in-x"), costOf, "100")}
	for _, name := range []string{"by-kubectl", "by-both", "by-status", "by-kruise"} {
		pods[name] = a.pod(t, name, x, match, matched("in-x"))
	}
	writeCost(t, pods["by-kubectl"], "100", "kubectl-annotate")
	writeCost(t, pods["by-both"], "100", kruise)
	both := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"by-both","annotations":{%q:"100"}}}`, costOf)
	if err := env.Client.Patch(t.Context(), pods["by-both"], client.RawPatch(types.ApplyPatchType, []byte(both)), client.FieldOwner("gitops")); err != nil {
		t.Fatal(err)
	}
	writeCost(t, pods["by-status"], "100", kruise)
	status := strings.Replace(both, "by-both", "by-status", 1)
	if err := env.Client.Status().Patch(t.Context(), pods["by-status"], client.RawPatch(types.ApplyPatchType, []byte(status)), client.FieldOwner("gitops")); err != nil {
		t.Fatal(err)
	}
	writeCost(t, pods["by-kruise"], "-200", kruise)
	r, _ := start(t)
	have(t, a.Namespace, map[string]string{"by-kruise": "-100"}) // beyond the maximum of 1
	env.Told(t, a.Deployment, controller.ReasonForeignCost, "[by-both by-kubectl by-status by-template]")
	for _, name := range []string{"by-template", "by-kubectl", "by-both", "by-status"} {
		env.Read(t, client.ObjectKeyFromObject(pods[name]), pods[name])
		if got := pods[name].Annotations; got[costOf] != "100" || got[markOf] != "" {
			t.Errorf("pod %s has the cost %q and the mark %q, want the user's 100", name, got[costOf], got[markOf])
		}
		if err := r.Patch(t.Context(), pods[name], "-100"); !apierrors.IsForbidden(err) {
			t.Errorf("write to pod %s with a user's cost: %v, want the policy to refuse it", name, err)
		}
	}
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
