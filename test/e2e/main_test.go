// Package e2e_test tests the promises to users on a three-node cluster, with Limpet installed
// by the manifests that users apply.
package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/disruptions"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// theBed is the cluster of this test run.
var theBed *bed.Bed

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	var err error
	theBed, err = bed.UpWith(ctx, "e2e", "../..", func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
		func(ctx context.Context, b *bed.Bed) error { return b.Install(ctx, "testdata/own-network") },
		func(c *cluster.Config) { c.AuditPolicy = disruptions.AuditPolicy })
	if err != nil {
		fmt.Fprintln(os.Stderr, "start cluster:", err)
		return 1
	}
	code := 1
	if err := theBed.Probe(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "start probes:", err)
	} else {
		duplicates := theBed.WatchDuplicates(ctx)
		code = m.Run()
		if found := duplicates.Stop(); len(found) > 0 {
			fmt.Fprintf(os.Stderr, "FAIL: two running pods had the same address: %v\n", found)
			code = 1
		}
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, bed.Describe(ctx, theBed))
	}
	if err := theBed.Down(); err != nil {
		fmt.Fprintln(os.Stderr, "take cluster down:", err)
		return 1
	}
	return code
}

// long leaves a test of minutes to make test-all.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short was given, and this takes minutes; make test-all runs it")
	}
}

// apply applies a manifest and removes it when the test ends.
func apply(t *testing.T, manifest string) string {
	t.Helper()
	out, err := theBed.KubectlIn(t.Context(), manifest, "apply", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		deleted, err := theBed.KubectlIn(ctx, manifest, "delete", "--ignore-not-found", "-f", "-")
		if err := errors.Join(err, forgetRecords(ctx, deleted)); err != nil {
			t.Error(err)
		}
	})
	return out
}

// forgetRecords deletes what outlives the StatefulSets that kubectl says it deleted: records, and what a test asked of them,
// would be those of a later StatefulSet of a name.
func forgetRecords(ctx context.Context, deleted string) (all error) {
	for line := range strings.Lines(deleted) {
		if rest, is := strings.CutPrefix(line, `statefulset.apps "`); is {
			name, _, _ := strings.Cut(rest, `"`)
			_, err := theBed.Kubectl(ctx, "delete", "--ignore-not-found", "persistentpodstate", name)
			all = errors.Join(all, err)
		}
	}
	return all
}

// kubectl runs kubectl, also after the test's context has ended.
func kubectl(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	defer cancel()
	if _, err := theBed.Kubectl(ctx, args...); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, limit time.Duration, what string, ask func(context.Context) (bool, string)) {
	t.Helper()
	if err := bed.Await(t.Context(), limit, what, ask); err != nil {
		t.Fatal(err)
	}
}

// set returns the manifest of a StatefulSet with annotations for its pods.
func set(name string, replicas int, annotations ...string) string {
	pod := ""
	for i := 0; i < len(annotations); i += 2 {
		pod += fmt.Sprintf("        %s: %q\n", annotations[i], annotations[i+1])
	}
	if pod != "" {
		pod = "      annotations:\n" + pod
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: %[1]s
  annotations:
    kruise.io/auto-generate-persistent-pod-state: "true"
    kruise.io/preferred-persistent-topology: kubernetes.io/hostname
spec:
  serviceName: %[1]s
  replicas: %[2]d
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s}
%[3]s    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`, name, replicas, pod)
}

// pods returns the pods of a StatefulSet by name. It waits until all of them are Ready and,
// if the StatefulSet has a PersistentPodState, recorded on their nodes.
func pods(t *testing.T, name string, want int) map[string]corev1.Pod {
	t.Helper()
	return podsIn(t, "default", name, want)
}

func podsIn(t *testing.T, namespace, name string, want int) map[string]corev1.Pod {
	t.Helper()
	found := map[string]corev1.Pod{}
	await(t, 5*time.Minute, fmt.Sprintf("%d Ready pods of %s", want, name), func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return false, err.Error()
		}
		clear(found)
		for _, p := range list.Items {
			if bed.Ready(&p) && p.DeletionTimestamp == nil {
				found[p.Name] = p
			}
		}
		if len(found) != want {
			return false, fmt.Sprintf("%d Ready", len(found))
		}
		recorded, err := theBed.Recorded(ctx, namespace, name)
		if err != nil && !apierrors.IsNotFound(err) {
			return false, err.Error()
		}
		for _, p := range found {
			if err == nil && recorded[p.Name] != p.Spec.NodeName {
				return false, fmt.Sprintf("%s is on %s, recorded: %v", p.Name, p.Spec.NodeName, recorded)
			}
		}
		return true, ""
	})
	return found
}

func ips(p corev1.Pod) string {
	var all []string
	for _, ip := range p.Status.PodIPs {
		all = append(all, ip.IP)
	}
	return strings.Join(all, ",")
}

// kept fails for each pod that was not rebuilt on its node with its addresses.
func kept(t *testing.T, before, after map[string]corev1.Pod) {
	t.Helper()
	for name, b := range before {
		a := after[name]
		if a.UID == b.UID {
			t.Errorf("%s was not rebuilt", name)
		}
		if a.Spec.NodeName != b.Spec.NodeName || ips(a) != ips(b) {
			t.Errorf("%s was on %s with %s, is on %s with %s", name, b.Spec.NodeName, ips(b), a.Spec.NodeName, ips(a))
		}
	}
}
