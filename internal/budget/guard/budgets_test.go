package guard_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// One of three pods may go. The second request waits until a pod is back.
func TestAnEvictionTakesTheLastUnit(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 3, intstr.FromInt32(1))
	if err := evictAs(t.Context(), env.Client, pods[0]); err != nil {
		t.Fatalf("first eviction: %v", err)
	}
	err := evictAs(t.Context(), env.Client, pods[1])
	refusedBy(t, err, "web")
	for _, word := range []string{"web", "web-0", "needs 2"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("message %q does not name %q", err, word)
		}
	}
	refusedBy(t, deleteAs(t.Context(), env.Client, pods[1]), "web")
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pods[1]), pods[1]); err != nil || pods[1].DeletionTimestamp != nil {
		t.Errorf("pod %s is gone: %v", pods[1].Name, err)
	}
}

// A dry run, said in the query or in the body, writes nothing.
func TestADryRunWritesNothing(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 3, intstr.FromInt32(1))
	dry := client.NewDryRunClient(env.Client)
	for range 2 {
		if err := evictAs(t.Context(), env.Client, pods[0], metav1.DryRunAll); err != nil {
			t.Errorf("dry run in the body: %v", err)
		}
		if err := evictAs(t.Context(), dry, pods[1]); err != nil {
			t.Errorf("dry run in the query: %v", err)
		}
		if err := deleteAs(t.Context(), dry, pods[2]); err != nil {
			t.Errorf("dry run of a deletion: %v", err)
		}
	}
	if all := booksOf(t, ns); len(all) != 0 {
		t.Errorf("%d books, want none", len(all))
	}
	if err := deleteAs(t.Context(), env.Client, pods[0]); err != nil {
		t.Fatal(err)
	}
	before := booksOf(t, ns)[0].ResourceVersion
	refusedBy(t, evictAs(t.Context(), env.Client, pods[1], metav1.DryRunAll), "web")
	refusedBy(t, deleteAs(t.Context(), dry, pods[2]), "web")
	if after := booksOf(t, ns)[0].ResourceVersion; after != before {
		t.Errorf("the book has version %s, want %s", after, before)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pods[0]), pods[0]); err == nil && pods[0].DeletionTimestamp == nil || err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("pod %s: %v", pods[0].Name, err)
	}
}
