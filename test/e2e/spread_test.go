package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/subsets"
)

// zones gives the nodes their zones for a test.
func zones(t *testing.T) {
	t.Helper()
	undo, err := subsets.Zones(t.Context(), theBed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := undo(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// workload is the manifest of a Deployment, or of a StatefulSet.
func workload(kind, namespace, name string, replicas int) string {
	more, annotations := "", ""
	if kind == "StatefulSet" {
		more = "\n  serviceName: " + name + "\n  podManagementPolicy: Parallel"
		annotations = fmt.Sprintf(", annotations: {%s: \"10\"}", retain)
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: %[1]s
metadata: {name: %[3]s, namespace: %[2]s}
spec:%[5]s
  replicas: %[4]d
  selector: {matchLabels: {app: %[3]s}}
  template:
    metadata: {labels: {app: %[3]s}%[6]s}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`, kind, namespace, name, replicas, more, annotations)
}

// spreadOf is the manifest of a WorkloadSpread over two zones; more belongs to its spec.
func spreadOf(kind, namespace, name, firstZone, most, more string) string {
	return fmt.Sprintf(`apiVersion: apps.kruise.io/v1alpha1
kind: WorkloadSpread
metadata: {name: %[3]s, namespace: %[2]s}
spec:
  targetRef: {apiVersion: apps/v1, kind: %[1]s, name: %[3]s}
  subsets:
    - name: a
      maxReplicas: %[5]s
      requiredNodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [%[4]s]}]}
    - name: b
      requiredNodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-b]}]}
%[6]s`, kind, namespace, name, firstZone, most, more)
}

// spreadAs waits for the Ready pods of a workload and compares where they are.
func spreadAs(t *testing.T, namespace, app string, want map[string]int) map[string]subsets.Pod {
	t.Helper()
	total := 0
	for _, n := range want {
		total += n
	}
	found, err := subsets.Ready(t.Context(), theBed, namespace, app, total)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, subsets.Count(found)); diff != "" {
		t.Errorf("pods of %s (-want +got):\n%s", app, diff)
	}
	return found
}

func scale(t *testing.T, namespace, name string, replicas int) {
	t.Helper()
	kubectl(t, "scale", "-n", namespace, "deployment/"+name, fmt.Sprint("--replicas=", replicas))
}

// TestTheSampleSpreadApplies applies a manifest of OpenKruise's users unchanged.
func TestTheSampleSpreadApplies(t *testing.T) {
	zones(t)
	namespace(t, "sampled")
	kubectl(t, "apply", "-n", "sampled", "-f", "testdata/workloadspread.yaml")
	apply(t, workload("Deployment", "sampled", "workload-xxx", 12))
	spreadAs(t, "sampled", "workload-xxx", map[string]int{"subset-a in zone-a": 10, "subset-b in zone-b": 2})
	if err := subsets.AwaitStatus(t.Context(), theBed, "sampled", "workloadspread-demo", "subset-a 10 0;subset-b 2 -1;"); err != nil {
		t.Error(err)
	}
	out, err := theBed.Kubectl(t.Context(), "get", "ws", "-n", "sampled", "--no-headers")
	if err != nil || !strings.HasPrefix(strings.Join(strings.Fields(out), " "), "workloadspread-demo workload-xxx Deployment") {
		t.Errorf("kubectl get ws: %s, %v", out, err)
	}
}

// TestASpreadFillsItsSubsets scales Deployments out and in: the first subset is filled first and
// emptied last, and a rebuilt pod gets the slot of its predecessor.
func TestASpreadFillsItsSubsets(t *testing.T) {
	zones(t)
	namespace(t, "filled")
	t.Run("a number", func(t *testing.T) {
		apply(t, spreadOf("Deployment", "filled", "elastic", "zone-a", "2", ""))
		apply(t, workload("Deployment", "filled", "elastic", 5))
		spreadAs(t, "filled", "elastic", map[string]int{"a in zone-a": 2, "b in zone-b": 3})
		scale(t, "filled", "elastic", 8)
		all := spreadAs(t, "filled", "elastic", map[string]int{"a in zone-a": 2, "b in zone-b": 6})
		for name, p := range all {
			if p.Subset == "a" {
				kubectl(t, "delete", "pod", "-n", "filled", name)
				break
			}
		}
		spreadAs(t, "filled", "elastic", map[string]int{"a in zone-a": 2, "b in zone-b": 6})
		if err := subsets.AwaitCosts(t.Context(), theBed, "filled", "elastic"); err != nil {
			t.Fatal(err)
		}
		scale(t, "filled", "elastic", 3)
		spreadAs(t, "filled", "elastic", map[string]int{"a in zone-a": 2, "b in zone-b": 1})
	})
	t.Run("a percentage", func(t *testing.T) {
		apply(t, spreadOf("Deployment", "filled", "percent", "zone-a", "30%", ""))
		apply(t, workload("Deployment", "filled", "percent", 10))
		spreadAs(t, "filled", "percent", map[string]int{"a in zone-a": 3, "b in zone-b": 7})
	})
}

// TestAStatefulSetKeepsSubsetAndNode rebuilds all pods of a StatefulSet that has a spread and a
// PersistentPodState.
func TestAStatefulSetKeepsSubsetAndNode(t *testing.T) {
	zones(t)
	namespace(t, "homes")
	apply(t, spreadOf("StatefulSet", "homes", "db", "zone-a", "2", ""))
	apply(t, `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata: {name: db, namespace: homes}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  preferredPersistentTopology: [{weight: 100, preference: {nodeTopologyKeys: [kubernetes.io/hostname]}}]
`)
	apply(t, workload("StatefulSet", "homes", "db", 4))
	want := map[string]int{"a in zone-a": 2, "b in zone-b": 2}
	before := spreadAs(t, "homes", "db", want)
	for name, p := range before {
		if err := theBed.AwaitRecorded(t.Context(), "homes", "db", name, p.Spec.NodeName); err != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, "delete", "pod", "-n", "homes", "-l", "app=db")
	after := spreadAs(t, "homes", "db", want)
	kept(t, corePods(before), corePods(after))
	for name, p := range before {
		if after[name].Subset != p.Subset {
			t.Errorf("%s had subset %s and has %s", name, p.Subset, after[name].Subset)
		}
	}
}

func corePods(of map[string]subsets.Pod) map[string]corev1.Pod {
	all := map[string]corev1.Pod{}
	for name, p := range of {
		all[name] = p.Pod
	}
	return all
}

// TestPodsThatWereThereAreAdopted creates a spread for a Deployment that runs. Its pods get the
// subset of their node, and no pod is rebuilt.
func TestPodsThatWereThereAreAdopted(t *testing.T) {
	zones(t)
	namespace(t, "adopted")
	apply(t, workload("Deployment", "adopted", "web", 6))
	before, err := subsets.Ready(t.Context(), theBed, "adopted", "web", 6)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, spreadOf("Deployment", "adopted", "web", "zone-a", "6", ""))
	await(t, time.Minute, "the pods to be adopted", func(ctx context.Context) (bool, string) {
		now, err := subsets.Ready(ctx, theBed, "adopted", "web", 6)
		if err != nil {
			return false, err.Error()
		}
		for name, p := range now {
			if was := before[name]; was.UID != p.UID {
				t.Fatalf("%s was rebuilt", name)
			}
			if want := map[string]string{"zone-a": "a", "zone-b": "b"}[p.Zone]; p.Subset != want {
				return false, fmt.Sprintf("%s in %s has subset %q", name, p.Zone, p.Subset)
			}
		}
		return true, ""
	})
}

// TestAdaptiveMovesOn has a first subset without nodes: its pods are created again in the second
// one, and the condition of the first one says why.
func TestAdaptiveMovesOn(t *testing.T) {
	zones(t)
	namespace(t, "adaptive")
	apply(t, spreadOf("Deployment", "adaptive", "web", "zone-x", "3",
		"  scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 3, recoverySeconds: 600}}\n"))
	apply(t, workload("Deployment", "adaptive", "web", 4))
	spreadAs(t, "adaptive", "web", map[string]int{"b in zone-b": 4})
	await(t, time.Minute, "the condition of subset a", func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "ws", "-n", "adaptive", "web", "-o",
			"jsonpath={range .status.subsetStatuses[?(@.name=='a')].conditions[?(@.type=='Schedulable')]}{.status} {.reason}{end}")
		return err == nil && out == "False PodUnschedulable", fmt.Sprint(out, err)
	})
	list, err := theBed.Client.CoreV1().Events("adaptive").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=WorkloadSpread"})
	if err != nil || len(list.Items) == 0 {
		t.Errorf("no event of the spread (%v)", err)
	}
}

// TestABalancedScaleIn makes a Deployment smaller, step by step: its pods stay divided over the nodes.
func TestABalancedScaleIn(t *testing.T) {
	namespace(t, "balanced")
	manifest := workload("Deployment", "balanced", "even", 9)
	manifest = strings.Replace(manifest, "name: even, namespace: balanced", "name: even, namespace: balanced, annotations: {limpet.dev/scale-in-order: balanced}", 1)
	manifest = strings.Replace(manifest, "    spec:\n", `    spec:
      topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: even}}}
`, 1)
	apply(t, manifest)
	for _, size := range []int{9, 7, 5, 4, 2} {
		if size < 9 {
			scale(t, "balanced", "even", size)
		}
		found, err := subsets.Ready(t.Context(), theBed, "balanced", "even", size)
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, node := range theBed.Cluster.Nodes() {
			count[node] = 0
		}
		for _, p := range found {
			count[p.Spec.NodeName]++
		}
		least, most := size, 0
		for _, n := range count {
			least, most = min(least, n), max(most, n)
		}
		if most-least > 1 {
			t.Errorf("%d pods are divided as %v", size, count)
		}
		if err := subsets.AwaitCosts(t.Context(), theBed, "balanced", "even"); err != nil {
			t.Fatal(err)
		}
	}
}
