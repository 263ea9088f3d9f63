package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/rebuild"
)

const retain = "io.kubernetes.cri/reserved-ip-duration"

func TestRebuildsInEveryOrdinaryWay(t *testing.T) {
	runner := &rebuild.Runner{Bed: theBed}
	if err := runner.Apply(t.Context(), "testdata/statefulset-annotations.yaml"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
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

// The successor of a force-deleted pod must not share an address with the sandbox that
// still lives, and takes its own back once that is gone.
func TestForceDeleteHasNoTwoHolders(t *testing.T) {
	apply(t, set("forced", 1, retain, "10"))
	before := pods(t, "forced", 1)
	for range 3 {
		kubectl(t, "delete", "pod", "forced-0", "--force", "--grace-period=0")
		after := pods(t, "forced", 1)
		sameHomes(t, before, after)
		before = after
	}
}

// The kubelet repeats its DEL seconds later; the running pod's clock must not start.
func TestAnAddressOutlivesLateDELs(t *testing.T) {
	apply(t, set("late", 1, retain, "1"))
	before := pods(t, "late", 1)
	kubectl(t, "delete", "pod", "late-0")
	after := pods(t, "late", 1)
	sameHomes(t, before, after)
	rebuilt := time.Now()
	await(t, 100*time.Second, "more than the reservation's minute to pass with the address attached", func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "ipreservations", "-o", "jsonpath={range .items[?(@.status.pod=='late-0')]}{.status.state}{end}")
		if err != nil || time.Since(rebuilt) > 5*time.Second && out != "Attached" {
			t.Fatalf("state %q, %v", out, err)
		}
		return time.Since(rebuilt) > 75*time.Second, out
	})
	kubectl(t, "delete", "pod", "late-0")
	sameHomes(t, after, pods(t, "late", 1))
}

// A reservation that nobody came back for ends by itself and is given back.
func TestAReservationLapses(t *testing.T) {
	apply(t, set("lapse", 1, retain, "1"))
	pods(t, "lapse", 1)
	kubectl(t, "scale", "statefulset", "lapse", "--replicas=0")
	state := func(ctx context.Context) string {
		out, err := theBed.Kubectl(ctx, "get", "ipreservations", "-o", "jsonpath={range .items[?(@.status.pod=='lapse-0')]}{.status.state}{end}")
		if err != nil {
			return err.Error()
		}
		return out
	}
	await(t, 30*time.Second, "the address to be reserved", func(ctx context.Context) (bool, string) {
		s := state(ctx)
		return s == "Reserved", s
	})
	await(t, 90*time.Second, "the reservation to lapse", func(ctx context.Context) (bool, string) {
		s := state(ctx)
		return s == "", s
	})
}

// Pods that come while a pod is away do not get its address.
func TestStrangersLeaveAReservedAddressAlone(t *testing.T) {
	apply(t, set("owner", 1, retain, "10"))
	before := pods(t, "owner", 1)
	kubectl(t, "scale", "statefulset", "owner", "--replicas=0")
	await(t, time.Minute, "the owner to be gone", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=owner"})
		return err == nil && len(list.Items) == 0, fmt.Sprint(err)
	})
	apply(t, set("stranger", 12))
	for name, p := range pods(t, "stranger", 12) {
		if ips(p) == ips(before["owner-0"]) {
			t.Errorf("%s got %s, which is reserved", name, ips(p))
		}
	}
	kubectl(t, "scale", "statefulset", "owner", "--replicas=1")
	sameHomes(t, before, pods(t, "owner", 1))
}

// Forty pods at once: whoever comes back to its node has its addresses. That all of
// them come back is not promised while the pin is a preference: with many replicas on
// the move the scheduler's own wish to spread them can outvote it for a few.
func TestManyPodsAtOnce(t *testing.T) {
	const many = 40
	apply(t, set("many", many, retain, "10"))
	before := pods(t, "many", many)
	kubectl(t, "delete", "pod", "-l", "app=many", "--wait=false")
	await(t, time.Minute, "all to be in deletion or replaced", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=many"})
		if err != nil {
			return false, err.Error()
		}
		for _, p := range list.Items {
			if p.UID == before[p.Name].UID && p.DeletionTimestamp == nil {
				return false, p.Name
			}
		}
		return true, ""
	})
	after, moved := pods(t, "many", many), 0
	for name, b := range before {
		switch a := after[name]; {
		case a.Spec.NodeName != b.Spec.NodeName:
			moved++
			t.Logf("%s moved from %s to %s", name, b.Spec.NodeName, a.Spec.NodeName)
		case ips(a) != ips(b):
			t.Errorf("%s had %s on %s and has %s now", name, ips(b), b.Spec.NodeName, ips(a))
		}
	}
	if moved > many/8 {
		t.Errorf("%d of %d pods moved", moved, many)
	}
}

// While no controller runs, pods of everybody else come and go, and a pod that asks for
// its address waits and then comes home.
func TestWithoutAController(t *testing.T) {
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
	await(t, time.Minute, "others' pods to be Ready", func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "statefulset", "others", "-o", "jsonpath={.status.readyReplicas}")
		return out == "2", fmt.Sprint(out, err)
	})
	kubectl(t, "delete", "pod", "others-0", "asks-0", "--timeout=30s")
	if err := back(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameHomes(t, before, pods(t, "asks", 1))
}

// A senseless wish is told to the person who makes it, and never keeps a pod from
// running.
func TestABadAnnotationWarnsAndThePodRuns(t *testing.T) {
	out := apply(t, set("bad", 1, retain, "ten"))
	if !strings.Contains(out, retain) || !strings.Contains(out, "not a whole number of minutes") {
		t.Errorf("the answer does not warn of the annotation: %s", out)
	}
	pods(t, "bad", 1)
}

// When all is deleted and lapsed, nothing is left in any pool but the probes and
// Limpet's own pods. It runs last: go test keeps the order of the files.
func TestZNothingLeaks(t *testing.T) {
	await(t, 2*time.Minute, "each pool to hold just what runs", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		running := map[string]int{}
		for _, p := range list.Items {
			if !p.Spec.HostNetwork {
				running[p.Spec.NodeName]++
			}
		}
		out, err := theBed.Kubectl(ctx, "get", "nodeippools", "-o", "jsonpath={range .items[*]}{.status.node} {.status.attached}{\"\\n\"}{end}")
		if err != nil {
			return false, err.Error()
		}
		for line := range strings.Lines(out) {
			node, count, _ := strings.Cut(strings.TrimSpace(line), " ")
			if n, err := strconv.Atoi(count); err != nil || n != running[node] {
				return false, fmt.Sprintf("%s holds %s, %d run", node, count, running[node])
			}
		}
		return true, ""
	})
}
