package tokens_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
)

// plainOf is an object whose fields may have any value.
func plainOf(t *testing.T, o client.Object, kind string) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	plain := &unstructured.Unstructured{Object: content}
	plain.SetAPIVersion("limpet.dev/v1alpha1")
	plain.SetKind(kind)
	unstructured.RemoveNestedField(plain.Object, "metadata", "creationTimestamp")
	return plain
}

// A list fails for every client in Go when one of its objects has a time that Go cannot read. One
// such object of a stolen token would end both replicas of the controller.
func TestTimesThatNoClientCanReadAreRefused(t *testing.T) {
	deploy(t)
	own, ns := env.Node(t), env.Namespace(t)
	thief := env.As(t, env.Token(t, agent, own.Name))
	write := func(at string) map[string]*unstructured.Unstructured {
		reservation := plainOf(t, shown(ns, "web-0", own), "IPReservation")
		condition := map[string]any{"type": "Exhausted", "status": "True", "reason": "R", "message": "", "lastTransitionTime": at}
		lent := plainOf(t, lending(ns, "web-0", loan.Loan{Home: own.Name, Borrower: loan.Unknown, Phase: loan.Lent, Epoch: 1}), "BorrowedAddress")
		pool := plainOf(t, pool(own, "net"), "NodeIPPool")
		for o, set := range map[*unstructured.Unstructured]error{
			reservation: unstructured.SetNestedField(reservation.Object, at, "status", "until"),
			lent:        unstructured.SetNestedField(lent.Object, at, "status", "since"),
			pool:        unstructured.SetNestedSlice(pool.Object, []any{condition}, "status", "conditions"),
		} {
			if set != nil {
				t.Fatalf("set time of %s: %v", o.GetKind(), set)
			}
		}
		return map[string]*unstructured.Unstructured{"IPReservation": reservation, "NodeIPPool": pool, "BorrowedAddress": lent}
	}
	for _, at := range []string{"2026-01-02t03:04:05z", "2026-01-02T03:04:05+99:99", "2026-01-02T03:04:05:5Z", "2026-01-02T03:04:05"} {
		for kind, o := range write(at) {
			t.Run(kind+" "+at, func(t *testing.T) {
				if err := thief.Create(t.Context(), o); !apierrors.IsInvalid(err) {
					t.Errorf("the answer is %v, want it invalid", err)
				}
			})
		}
	}
	for _, at := range []string{"2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456+01:00"} {
		for kind, o := range write(at) {
			t.Run(kind+" "+at, func(t *testing.T) { allowed(t, thief, createAndRemove(o)) })
		}
	}
}

// createAndRemove is a write of which nothing stays.
func createAndRemove(o client.Object) request {
	return func(ctx context.Context, c client.Client) error {
		next := o.DeepCopyObject().(client.Object)
		if err := c.Create(ctx, next); err != nil {
			return err
		}
		return client.IgnoreNotFound(env.Client.Delete(ctx, next)) // after a dry run there is none
	}
}

// Each time in a CRD has the pattern of times that Go reads.
func TestEachTimeHasAPattern(t *testing.T) {
	files, err := filepath.Glob("../../deploy/crds/*_*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d CRDs, error %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		times, patterns := strings.Count(string(text), "format: date-time\n"), 0
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(strings.TrimSpace(line), "pattern: ^[0-9]{4}-") {
				patterns++
			}
		}
		if times != patterns {
			t.Errorf("%s has %d times and %d patterns of times", file, times, patterns)
		}
	}
}
