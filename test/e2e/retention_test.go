package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/rebuild"
)

const retain = "io.kubernetes.cri/reserved-ip-duration"

// TestRebuildsInEveryOrdinaryWay runs the steps of the demo.
func TestRebuildsInEveryOrdinaryWay(t *testing.T) {
	runner := &rebuild.Runner{Bed: theBed}
	if err := runner.Apply(t.Context(), "testdata/statefulset-annotations.yaml"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if _, err := theBed.Kubectl(ctx, "delete", "-f", "testdata/statefulset-annotations.yaml"); err != nil {
			t.Error(err)
		}
	})
	for _, step := range rebuild.Steps() {
		t.Run(step.Name, func(t *testing.T) {
			results, err := runner.Run(t.Context(), step)
			if err != nil {
				t.Fatal(err)
			}
			kept, of, _ := rebuild.Count(results)
			if kept != of {
				t.Errorf("kept %d of %d: %+v", kept, of, results)
			}
		})
	}
}

// TestReservationsOfOneMinute lets a minute pass for two pods at once: one that is rebuilt and runs,
// and one that stays away. Prometheus measures meanwhile.
func TestReservationsOfOneMinute(t *testing.T) {
	for name, check := range map[string]func(*testing.T){"outlive late DELs": outlivesLateDELs, "lapse": lapses, "are measured": areMeasured} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t)
		})
	}
}

// outlivesLateDELs checks that a DEL which the kubelet repeats for the former pod does not end the
// attachment of the rebuilt pod.
func outlivesLateDELs(t *testing.T) {
	t.Helper()
	apply(t, set("late", 1, retain, "1"))
	before := pods(t, "late", 1)
	kubectl(t, "delete", "pod", "late-0")
	after := pods(t, "late", 1)
	kept(t, before, after)
	attached(t, after["late-0"])
	rebuilt := time.Now()
	await(t, 3*time.Minute, "more than the reservation's minute to pass with the address attached", func(ctx context.Context) (bool, string) {
		out, err := shownState(ctx, "late-0")
		if err == nil && out != "Attached" {
			t.Fatalf("state %q", out)
		}
		return err == nil && time.Since(rebuilt) > 75*time.Second, out
	})
	kubectl(t, "delete", "pod", "late-0")
	kept(t, after, pods(t, "late", 1))
}

// lapses checks that a reservation ends at its deadline.
func lapses(t *testing.T) {
	t.Helper()
	apply(t, set("lapse", 1, retain, "1"))
	pods(t, "lapse", 1)
	kubectl(t, "scale", "statefulset", "lapse", "--replicas=0")
	state := func(ctx context.Context) string {
		out, err := shownState(ctx, "lapse-0")
		if err != nil {
			return err.Error()
		}
		return out
	}
	await(t, time.Minute, "the address to be reserved", func(ctx context.Context) (bool, string) {
		s := state(ctx)
		return s == "Reserved", s
	})
	await(t, 90*time.Second, "the reservation to lapse", func(ctx context.Context) (bool, string) {
		s := state(ctx)
		return s == "", s
	})
}

// TestWithoutAController stops the controller. Pods without retention start and end as usual;
// a pod with retention waits for the controller, and then returns to its node. In a namespace with
// the label of deploy/mutating-policy it does not wait.
func TestWithoutAController(t *testing.T) {
	open := openFleet(t)
	apply(t, set("asks", 1, retain, "10"))
	before := pods(t, "asks", 1)
	kubectl(t, "-n", bed.System, "scale", "deployment", "limpet-controller", "--replicas=0")
	back := func(ctx context.Context) error {
		_, err := theBed.Kubectl(ctx, "-n", bed.System, "scale", "deployment", "limpet-controller", "--replicas=2")
		if err != nil {
			return err
		}
		return theBed.AwaitLimpet(ctx)
	}
	t.Cleanup(func() {
		if err := back(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	await(t, time.Minute, "no controller to run", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods(bed.System).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=limpet-controller"})
		return err == nil && len(list.Items) == 0, fmt.Sprint(err)
	})
	apply(t, set("others", 2))
	await(t, 3*time.Minute, "the pods of others to be Ready", func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "statefulset", "others", "-o", "jsonpath={.status.readyReplicas}")
		return out == "2", fmt.Sprint(out, err)
	})
	kubectl(t, "delete", "pod", "others-0", "asks-0", "--timeout=120s")
	comesHome(t, open)
	if err := back(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept(t, before, pods(t, "asks", 1))
}

// TestABadAnnotationWarnsAndThePodRuns checks that an invalid annotation gives a warning and
// does not keep the pod from running.
func TestABadAnnotationWarnsAndThePodRuns(t *testing.T) {
	out := apply(t, set("bad", 1, retain, "ten"))
	if !strings.Contains(out, retain) || !strings.Contains(out, "neither a duration nor a number of minutes") {
		t.Errorf("kubectl prints no warning about the annotation: %s", out)
	}
	pods(t, "bad", 1)
}

// TestZNothingLeaks runs last, because go test keeps the order of the files. After all other
// tests, each node's state holds the running pods and current reservations only, and the API
// shows the same.
func TestZNothingLeaks(t *testing.T) {
	await(t, 2*time.Minute, "each node to hold just what runs and what is reserved", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		runs := map[string]bool{}
		for _, p := range list.Items {
			if !p.Spec.HostNetwork {
				runs[p.Spec.NodeName+" "+p.Namespace+"/"+p.Name] = true
			}
		}
		pools, err := poolsOf(ctx)
		if err != nil {
			return false, err.Error()
		}
		attached := map[string]bool{}
		for _, node := range theBed.Cluster.Nodes() {
			held, err := heldOn(ctx, node)
			if err != nil {
				return false, err.Error()
			}
			counted := pool{Node: node}
			for _, h := range held {
				switch {
				case h.State == "attached":
					counted.Attached++
					attached[node+" "+h.Namespace+"/"+h.Pod] = true
				case h.RetainSeconds == 0 || h.LeftSeconds < -60: // the agent has had a minute to free it
					return false, fmt.Sprintf("%s still holds %+v", node, h)
				default:
					counted.Reserved++
				}
			}
			if pools[node] != counted {
				return false, fmt.Sprintf("the API shows %+v, the node holds %+v", pools[node], counted)
			}
		}
		return maps.Equal(runs, attached), fmt.Sprintf("%v run, %v are attached", runs, attached)
	})
}
