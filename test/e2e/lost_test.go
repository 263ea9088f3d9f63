package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plainly is a StatefulSet that asks for nothing, with a Service for each pod: its address changes with its node.
func plainly(name string, replicas int) string {
	manifest := strings.Replace(following(name, replicas), "      annotations: {limpet.dev/retention: follow}\n", "", 1)
	for i := range replicas {
		manifest += fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: %[1]s-%[2]d}
spec:
  selector: {statefulset.kubernetes.io/pod-name: %[1]s-%[2]d}
  ports: [{port: 8080}]
`, name, i)
	}
	return manifest
}

// asking is a client on each node, which opens ten connections a second to each address.
func asking(name string, addresses []string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: DaemonSet
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent, args: [ask, %[2]s]}]
`, name, strings.Join(addresses, ", "))
}

// asked is what a client counted.
type asked struct{ sent, lost int }

// clients returns what the clients on all nodes have counted, by node and address.
func clients(t *testing.T, name string) map[[2]string]asked {
	t.Helper()
	list, err := theBed.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		t.Fatal(err)
	}
	all := map[[2]string]asked{}
	for _, p := range list.Items {
		out, err := theBed.Kubectl(t.Context(), "logs", p.Name, "--tail=40")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			var address string
			var a asked
			if _, err := fmt.Sscan(line, &address, &a.sent, &a.lost); err == nil {
				all[[2]string{p.Spec.NodeName, address}] = a
			}
		}
	}
	return all
}

// lostIn logs what clients lost of the pods that were on a node while it was drained.
func lostIn(t *testing.T, node string, was map[string]corev1.Pod, at map[string]string, before, after map[[2]string]asked) {
	t.Helper()
	for name, p := range was {
		if p.Spec.NodeName != node {
			continue
		}
		line := ""
		for key, a := range after {
			if key[1] == at[name] {
				b := before[key]
				line += fmt.Sprintf("; from %s %d of %d", key[0], a.lost-b.lost, a.sent-b.sent)
			}
		}
		t.Logf("%s: connections lost%s", name, line)
	}
}

// TestWhatADrainCosts counts what clients on each node lose of pods whose node is drained: of pods that follow, at their addresses,
// and of others beside them, through a Service for each.
func TestWhatADrainCosts(t *testing.T) {
	long(t)
	apply(t, following("costly", 3))
	apply(t, plainly("plain", 3))
	followers, plain, at := pods(t, "costly", 3), pods(t, "plain", 3), map[string]string{}
	awaitAllShown(t, followers)
	var addresses []string
	for name, p := range followers {
		at[name] = p.Status.PodIP + ":8080"
	}
	for name := range plain {
		ip, err := theBed.Kubectl(t.Context(), "get", "service", name, "-o", "jsonpath={.spec.clusterIP}")
		if err != nil {
			t.Fatal(err)
		}
		at[name] = ip + ":8080"
	}
	for _, a := range at {
		addresses = append(addresses, fmt.Sprintf("%q", a))
	}
	apply(t, asking("asker", addresses))
	kubectl(t, "rollout", "status", "daemonset", "asker")
	quiet := func() map[[2]string]asked { // when all have had answers for some seconds
		var last map[[2]string]asked
		since := time.Now()
		await(t, time.Minute, "answers of all pods", func(context.Context) (bool, string) {
			now := clients(t, "asker") //nolint:contextcheck // it has the context of the test
			for key, a := range now {
				if a.lost != last[key].lost {
					since = time.Now()
				}
			}
			last = now
			return len(now) == len(addresses)*len(theBed.Cluster.Nodes()) && time.Since(since) > 5*time.Second, fmt.Sprint(now)
		})
		return last
	}
	for _, node := range theBed.Cluster.Nodes() {
		followed, others, before := pods(t, "costly", 3), pods(t, "plain", 3), quiet()
		kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
		t.Cleanup(func() { uncordon(t, node) })
		sameAddresses(t, followers, pods(t, "costly", 3))
		pods(t, "plain", 3)
		after := quiet()
		t.Logf("drain of %s", node)
		lostIn(t, node, followed, at, before, after)
		lostIn(t, node, others, at, before, after)
		kubectl(t, "uncordon", node)
	}
}
