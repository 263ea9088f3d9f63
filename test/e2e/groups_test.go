package e2e_test

import (
	"context"
	"testing"

	"github.com/limpet-io/limpet/test/e2e/ring"
)

// TestADrainKeepsARing drains a node of a ring of nine. Of three neighbours two are Ready at any time.
func TestADrainKeepsARing(t *testing.T) {
	namespace(t, "ringed")
	if err := ring.Apply(t.Context(), theBed, "ringed"); err != nil {
		t.Fatal(err)
	}
	r, err := ring.Run(t.Context(), theBed, "ringed")
	t.Cleanup(func() {
		if err := ring.Undo(context.WithoutCancel(t.Context()), theBed, "ringed", r.Node); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Errorf("kubectl drain ended with an error: %v", err)
	}
	for _, both := range r.Together {
		t.Errorf("away together: %s", both)
	}
	t.Logf("node %s was drained in %s; at most %d pods were away together: %q", r.Node, r.Took, r.Most, r.States)
}
