package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// TestADrainAsksBudgetsOfTwoNamespaces drains the node with the most pods of an application that runs in two namespaces.
// Never are two of the six pods away.
func TestADrainAsksBudgetsOfTwoNamespaces(t *testing.T) {
	long(t)
	both := []string{"sites-a", "sites-b"}
	for _, ns := range both {
		namespace(t, ns)
		if _, err := theBed.Kubectl(t.Context(), "apply", "-n", ns, "-f", theBed.Repo+"/test/e2e/testdata/sites.yaml"); err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range both {
		err := bed.Await(t.Context(), 2*time.Minute, "the budgets to agree", func(ctx context.Context) (bool, string) {
			out, err := theBed.Kubectl(ctx, "get", "-n", ns, "dpdb", "db", "-o", "jsonpath={.status.currentHealthy} {.status.shares[0].open}")
			return err == nil && out == "3 true", fmt.Sprint(out, err)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, node := awayOf(t.Context(), t, both)
	t.Cleanup(func() {
		if _, err := theBed.Kubectl(context.WithoutCancel(t.Context()), "uncordon", node); err != nil {
			t.Error(err)
		}
	})
	drained := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := theBed.Kubectl(t.Context(), "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
		drained <- err
	}()
	for most := 0; ; {
		select {
		case err := <-drained:
			if err != nil || most != 1 {
				t.Errorf("kubectl drain: %v; %d of six pods were away together, want 1", err, most)
			}
			t.Logf("node %s was drained in %s", node, time.Since(began).Round(time.Second))
			return
		case <-time.After(50 * time.Millisecond):
			n, _ := awayOf(t.Context(), t, both)
			most = max(most, n)
		}
	}
}

// awayOf returns how many of six pods are not Ready, and the node that has the most.
func awayOf(ctx context.Context, t *testing.T, namespaces []string) (away int, node string) {
	t.Helper()
	on := map[string]int{}
	away = 6
	for _, ns := range namespaces {
		list, err := theBed.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=db"})
		if err != nil {
			t.Error(err)
			return 0, node
		}
		for _, p := range list.Items {
			if bed.Ready(&p) && p.DeletionTimestamp == nil {
				away--
			}
			if on[p.Spec.NodeName]++; on[p.Spec.NodeName] > on[node] {
				node = p.Spec.NodeName
			}
		}
	}
	return away, node
}
