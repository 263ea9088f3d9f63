package e2e_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/chaos"
)

// TestTwoMinutesOfChaos disturbs the cluster at random. `make chaos` does so for longer.
func TestTwoMinutesOfChaos(t *testing.T) {
	long(t)
	t.Cleanup(func() {
		kubectl(t, "delete", "namespace", chaos.Namespace, "--ignore-not-found", "--wait=false")
		err := bed.Await(context.WithoutCancel(t.Context()), time.Minute, "the namespace to be gone", func(ctx context.Context) (bool, string) {
			_, err := theBed.Client.CoreV1().Namespaces().Get(ctx, chaos.Namespace, metav1.GetOptions{})
			return apierrors.IsNotFound(err), "it is there"
		})
		if err != nil {
			t.Error(err)
		}
	})
	report, err := chaos.Run(t.Context(), theBed, 1, 2*time.Minute, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + chaos.Header + report.Row())
	for _, v := range report.Violations {
		t.Error(v)
	}
	if report.Rebuilt < 10 || report.Kept < 5 || report.Budgets.Disruptions < 5 || report.Looks < 50 {
		t.Error("the chaos was too weak to prove anything")
	}
}
