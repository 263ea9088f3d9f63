package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/spread/scalein/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// The pods of a Deployment get layers in their zones, a pod that replaces another one gets its
// layer, and a hole is filled. Without the annotation the costs are removed.
func TestCostsOfADeployment(t *testing.T) {
	at := &held{at: time.Now()} // a hole waits until its pod is here
	r, registry := startWith(t, at)
	x1, x2, y := node(t, "x"), node(t, "x"), node(t, "y")
	env.Known(t, r.Client, &corev1.NodeList{})
	a := anApp(t, 5, map[string]string{order: balanced})
	first := a.pod(t, "x-0", x1)
	have(t, a.Namespace, map[string]string{"x-0": "10000000"})
	a.pod(t, "y-0", y)
	second := a.pod(t, "x-1", x2)
	have(t, a.Namespace, map[string]string{"x-0": "10000000", "y-0": "10000000", "x-1": "9999999"})
	a.pod(t, "x-2", x2)
	have(t, a.Namespace, map[string]string{"x-2": "9999998"})
	a.pod(t, "pending", "")

	env.Remove(t, second)
	a.pod(t, "x-3", x2)
	have(t, a.Namespace, map[string]string{"x-0": "10000000", "x-2": "9999998", "x-3": "9999999", "pending": ""})
	testenv.Eventually(t, func() error {
		if n := written(t, registry, "balanced"); n != 5 { // a write is counted after its answer
			return fmt.Errorf("%v writes for 5 pods", n)
		}
		return nil
	})
	at.released.Store(true)
	env.Remove(t, first) // no pod takes its place
	have(t, a.Namespace, map[string]string{"x-2": "10000000", "x-3": "9999999", "y-0": "10000000"})

	env.Annotate(t, a.Deployment, order, "")
	have(t, a.Namespace, map[string]string{"x-2": "", "x-3": "", "y-0": ""})
}

// A ReplicaSet without a Deployment has the annotation itself. Without constraints its pods are
// spread over hosts.
func TestCostsOfAReplicaSet(t *testing.T) {
	start(t)
	a := anApp(t, 2, nil)
	set := a.sets[0].DeepCopy()
	set.Name, set.OwnerReferences, set.ResourceVersion, set.UID = "alone", nil, "", ""
	set.Spec.Template.Spec.TopologySpreadConstraints = nil
	env.Create(t, set)
	one, two := node(t, "x"), node(t, "x")
	podOf(t, set, "one-0", one)
	podOf(t, set, "two-0", two)
	have(t, a.Namespace, map[string]string{"one-0": "10000000", "two-0": "10000000"})
	a.pod(t, "of-the-deployment", one) // whose ReplicaSet has a copy of the annotation
	podOf(t, set, "one-1", one)
	have(t, a.Namespace, map[string]string{"one-1": "9999999", "of-the-deployment": ""})
}

// Costs of users stay, and are told on the Deployment. So does an order that does not exist.
func TestForeignCostsAreTold(t *testing.T) {
	_, registry := start(t)
	n := node(t, "x")
	a := anApp(t, 2, map[string]string{order: balanced})
	theirs := a.pod(t, "theirs", n, costOf, "7")
	a.pod(t, "ours", n)
	have(t, a.Namespace, map[string]string{"ours": "10000000"})
	env.Told(t, a.Deployment, controller.ReasonForeignCost, "[theirs]")
	if n := metric(t, registry, "limpet_foreign_deletion_cost_pods", ""); n != 1 {
		t.Errorf("%v pods with foreign costs, want 1", n)
	}
	env.Annotate(t, a.Deployment, order, "topology")
	have(t, a.Namespace, map[string]string{"ours": ""})
	env.Told(t, a.Deployment, controller.ReasonUnknownOrder, "topology")
	env.Read(t, client.ObjectKeyFromObject(theirs), theirs)
	if theirs.Annotations[costOf] != "7" {
		t.Errorf("the cost of the user is %q", theirs.Annotations[costOf])
	}
}

// A controller that starts beside thousands of ReplicaSets finds those whose pods have an order or
// had one, and those that ask for an order that does not exist.
func TestAStartFindsWhatHasAnOrder(t *testing.T) {
	n := node(t, "x")
	ordered, former, unknown := anApp(t, 1, map[string]string{order: balanced}), anApp(t, 1, nil), anApp(t, 1, map[string]string{order: "topology"})
	ordered.pod(t, "web", n)
	former.pod(t, "web", n, costOf, "100", markOf, "100")
	start(t)
	have(t, ordered.Namespace, map[string]string{"web": "10000000"})
	have(t, former.Namespace, map[string]string{"web": ""})
	env.Told(t, unknown.Deployment, controller.ReasonUnknownOrder, "topology")
}

// A user who writes a cost at the same moment keeps it: the cache may not show it yet.
func TestACostOfAUserIsNotOverwritten(t *testing.T) {
	r, _ := start(t)
	a := anApp(t, 1, nil)
	pod := a.pod(t, "web", node(t, "x"))
	before := pod.DeepCopy()
	env.Annotate(t, pod, costOf, "7")
	if err := r.Patch(t.Context(), before, "100"); !apierrors.IsConflict(err) {
		t.Errorf("write to a pod that has changed: %v, want a conflict", err)
	}
	// Also the policy keeps the controller from it.
	if err := r.Patch(t.Context(), pod.DeepCopy(), "100"); !apierrors.IsForbidden(err) {
		t.Errorf("write to a pod with a user's cost: %v, want it refused", err)
	}
	env.Read(t, client.ObjectKeyFromObject(pod), pod)
	if pod.Annotations[costOf] != "7" {
		t.Errorf("the cost of the user is %q", pod.Annotations[costOf])
	}
}

// A namespace gets so many writes in a second. Another namespace does not wait.
func TestWritesOfANamespaceAreBounded(t *testing.T) {
	many, other := 0, 0
	grant := controller.NewGrant()
	for range 1000 {
		if grant("many", 7) {
			many++
		}
	}
	if grant("other", 7) {
		other++
	}
	if many != controller.WritesPerSecond || other != 1 || !grant("many", 8) {
		t.Errorf("%d writes, %d of another namespace, and none in the next second", many, other)
	}
}

// Pods that are seen together are ordered together: each is written once.
func TestPodsThatAreSeenTogetherAreWrittenOnce(t *testing.T) {
	a := anApp(t, 30, map[string]string{order: balanced})
	nodes := []string{node(t, "x"), node(t, "y"), node(t, "z")}
	want := map[string]string{}
	for i := range 30 {
		name := fmt.Sprintf("web-%02d", i)
		a.pod(t, name, nodes[i%3])
		want[name] = ""
	}
	_, registry := start(t)
	testenv.Eventually(t, func() error {
		layers := map[string]int{}
		for name := range want {
			var pod corev1.Pod
			env.Read(t, client.ObjectKey{Namespace: a.Namespace, Name: name}, &pod)
			layers[pod.Annotations[costOf]]++
		}
		if len(layers) != 10 || layers[""] > 0 {
			return fmt.Errorf("costs %v, want ten layers", layers)
		}
		if n := written(t, registry, "balanced"); n < 30 { // a write is counted after its answer
			return fmt.Errorf("%v writes for 30 pods", n)
		}
		return nil
	})
	if n := written(t, registry, "balanced"); n != 30 {
		t.Errorf("%v writes for 30 pods", n)
	}
}

func written(t *testing.T, r *prometheus.Registry, order string) float64 {
	t.Helper()
	return metric(t, r, "limpet_deletion_cost_writes_total", order)
}

// metric reads a metric, perhaps one with a label of some value.
func metric(t *testing.T, r *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return valueOf(m)
			}
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func valueOf(m *dto.Metric) float64 { return m.GetGauge().GetValue() + m.GetCounter().GetValue() }
