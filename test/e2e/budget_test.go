package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/drain"
)

// namespace makes a namespace and removes it when the test ends.
func namespace(t *testing.T, name string) {
	t.Helper()
	apply(t, fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", name))
}

// TestADrainWaitsForABudget drains a node with two pods of a budget of one. kubectl prints why
// the second pod waits, and ends without an error.
func TestADrainWaitsForABudget(t *testing.T) {
	namespace(t, "drained")
	if err := drain.Apply(t.Context(), theBed, "drained"); err != nil {
		t.Fatal(err)
	}
	r, err := drain.Run(t.Context(), theBed, "drained")
	t.Cleanup(func() {
		if err := drain.Undo(context.WithoutCancel(t.Context()), theBed, "drained", r.Node); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatalf("kubectl drain ended with an error: %v", err)
	}
	t.Logf("%+v", r)
	reason := "PodUnavailableBudget " + drain.App + " needs 5 of 6 pods available (maxUnavailable 1)"
	if !slices.ContainsFunc(r.Waited, func(line string) bool { return strings.Contains(line, reason) }) {
		t.Errorf("kubectl prints no reason: %q", r.Waited)
	}
	if r.Least < 5 {
		t.Errorf("%d pods were Ready, the budget needs 5", r.Least)
	}
}

// TestABudgetExplainsItself asks by a dry run what the budget would answer, in both forms of a
// dry run. The pods stay, and the book has no entry.
func TestABudgetExplainsItself(t *testing.T) {
	namespace(t, "explained")
	if err := drain.Apply(t.Context(), theBed, "explained"); err != nil {
		t.Fatal(err)
	}
	list, err := theBed.Client.CoreV1().Pods("explained").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + drain.App})
	if err != nil {
		t.Fatal(err)
	}
	evict := func(pod string, dryRun ...string) error {
		return theBed.Client.PolicyV1().Evictions("explained").Evict(t.Context(), &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: "explained", Name: pod}, DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun},
		})
	}
	for _, p := range list.Items {
		if err := evict(p.Name, metav1.DryRunAll); err != nil {
			t.Errorf("a dry run while a unit is free: %v", err)
		}
	}
	if err := evict(list.Items[0].Name); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items[1:] {
		err := evict(p.Name, metav1.DryRunAll)
		if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), list.Items[0].Name) {
			t.Errorf("a dry run while no unit is free: %v, want 429 and the name of %s", err, list.Items[0].Name)
		}
	}
	out, err := theBed.Kubectl(t.Context(), "delete", "pod", "-n", "explained", list.Items[1].Name, "--dry-run=server")
	if err == nil || !strings.Contains(err.Error(), "PodUnavailableBudget") {
		t.Errorf("kubectl delete --dry-run=server: %s, %v", out, err)
	}
}

// TestTheSampleBudgetApplies applies a manifest of OpenKruise's users unchanged.
func TestTheSampleBudgetApplies(t *testing.T) {
	namespace(t, "web")
	apply(t, `apiVersion: apps/v1
kind: Deployment
metadata: {name: web-server, namespace: web}
spec:
  replicas: 5
  selector: {matchLabels: {app: web-server}}
  template:
    metadata: {labels: {app: web-server}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent, readinessProbe: {httpGet: {port: 8080}, initialDelaySeconds: 10, timeoutSeconds: 10, failureThreshold: 10}}]
`)
	kubectl(t, "apply", "-f", "testdata/podunavailablebudget.yaml")
	kubectl(t, "rollout", "status", "-n", "web", "deployment/web-server", "--timeout=180s")
	await(t, time.Minute, "the numbers of the budget", func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "pub", "-n", "web", "web-server-pub", "--no-headers")
		return err == nil && strings.HasPrefix(strings.Join(strings.Fields(out), " "), "web-server-pub 3 5 2 5 True"), fmt.Sprint(out, err)
	})
	list, err := theBed.Client.CoreV1().Pods("web").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web-server"})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range list.Items[:4] {
		err := theBed.Client.CoreV1().Pods("web").Delete(t.Context(), p.Name, metav1.DeleteOptions{})
		if refused := apierrors.IsTooManyRequests(err); refused != (i == 3) || !refused && err != nil {
			t.Errorf("deletion %d: %v", i+1, err)
		}
	}
}

// TestBreakGlass deletes a pod although a budget keeps it: the user acts for a group and has
// the verb bypass.
func TestBreakGlass(t *testing.T) {
	namespace(t, "glass")
	if err := drain.Apply(t.Context(), theBed, "glass"); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "patch", "pub", "-n", "glass", drain.App, "--type=merge", "-p", `{"spec":{"maxUnavailable":0}}`)
	list, err := theBed.Client.CoreV1().Pods("glass").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + drain.App})
	if err != nil {
		t.Fatal(err)
	}
	pod := list.Items[0].Name
	group := []string{"--as=oncall", "--as-group=limpet.dev:break-glass"}
	remove := append([]string{"delete", "pod", "-n", "glass", pod, "--wait=false"}, group...)
	apply(t, `apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: oncall, namespace: glass}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: oncall}]
`)
	await(t, time.Minute, "the budget to keep all pods", func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "-n", "glass", "pub", drain.App, "-o", "jsonpath={.status.unavailableAllowed}")
		return out == "0", fmt.Sprint(out, err)
	})
	await(t, time.Minute, "a refusal without the verb bypass", func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, remove...)
		if err == nil {
			t.Fatalf("without the verb bypass: %s", out)
		}
		return strings.Contains(err.Error(), "PodUnavailableBudget"), err.Error() // before, the API server does not know the role yet
	})
	apply(t, `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: break-glass-of-budgets}
rules: [{apiGroups: [policy.kruise.io], resources: [podunavailablebudgets], verbs: [bypass]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: break-glass-of-budgets, namespace: glass}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: break-glass-of-budgets}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "limpet.dev:break-glass"}]
`)
	await(t, time.Minute, "the API server to know the binding", func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, remove...)
		return err == nil, fmt.Sprint(out, err)
	})
}
