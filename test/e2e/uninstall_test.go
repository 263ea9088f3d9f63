package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/churn"
)

// TestTheWrongOrderHarmsNoPod deletes the CRDs while controllers and agents run, and then the namespace. Pods start and
// end after each step, no pod stays in deletion, and Limpet can be installed again.
func TestTheWrongOrderHarmsNoPod(t *testing.T) {
	long(t)
	apply(t, set("order", 1, retain, "10"))
	before := pods(t, "order", 1)
	labelled(t)
	install := func(ctx context.Context) error {
		if _, err := theBed.Kubectl(ctx, "apply", "-k", filepath.Join(theBed.Repo, "deploy/own-network")); err != nil {
			return err
		}
		return theBed.AwaitLimpet(ctx)
	}
	t.Cleanup(func() {
		if err := install(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	steps := []struct {
		name  string
		args  []string
		waits bool
	}{
		{"the CRDs first", []string{"delete", "-k", filepath.Join(theBed.Repo, "deploy/crds"), "--timeout=120s"}, true},
		{"then the namespace", []string{"delete", "namespace", bed.System, "--timeout=120s"}, false},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			kubectl(t, step.args...)
			kubectl(t, "delete", "pod", "order-0", "--timeout=120s", "--ignore-not-found")
			for _, node := range theBed.Cluster.Nodes() {
				if err := churn.Live(t.Context(), theBed, "default", "after-"+node, node); err != nil {
					t.Error(err)
				}
			}
			noneTerminating(t)
			if step.waits {
				return // the pod asks to return, and is refused until the webhooks have gone
			}
			await(t, 5*time.Minute, "order-0 to be Ready again", func(ctx context.Context) (bool, string) {
				p, err := theBed.Client.CoreV1().Pods("default").Get(ctx, "order-0", metav1.GetOptions{})
				return err == nil && p.UID != before["order-0"].UID && bed.Ready(p), fmt.Sprint(err)
			})
		})
	}
	if err := install(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := pods(t, "order", 1)
	kubectl(t, "delete", "pod", "order-0")
	kept(t, again, pods(t, "order", 1))
}

// labelled makes a budget and a spread, so that the API server asks the webhooks about the pods of the namespace.
func labelled(t *testing.T) {
	t.Helper()
	apply(t, `apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata: {name: order, namespace: default}
spec: {selector: {matchLabels: {app: order}}, maxUnavailable: 1}
`)
	apply(t, `apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: order, namespace: default}
spec: {targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: order}, subsets: [{name: all}]}
`)
	await(t, time.Minute, "the labels of the namespace", func(ctx context.Context) (bool, string) {
		ns, err := theBed.Client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return ns.Labels["limpet.dev/budgets"] != "" && ns.Labels["limpet.dev/spreads"] != "", fmt.Sprint(ns.Labels)
	})
}

// noneTerminating waits until no pod is in deletion.
func noneTerminating(t *testing.T) {
	t.Helper()
	await(t, time.Minute, "no pod to be in deletion", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp != nil {
				return false, p.Namespace + "/" + p.Name
			}
		}
		return true, ""
	})
}
