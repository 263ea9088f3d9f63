package disruption

import (
	"context"
	"errors"
	"testing"
)

// begins fails unless a decision begins at once, or waits.
func begins(t *testing.T, what string, of *turn, want bool) {
	t.Helper()
	began := false
	select {
	case <-of.begins:
		began = true
	default:
	}
	if began != want {
		t.Errorf("%s begins: %v, want %v", what, began, want)
	}
}

func TestDecisionsOfANamespaceLeaveRoomForOthers(t *testing.T) {
	turns := newTurns()
	first := turns.ask("tenant", 10*countedInNamespace) // alone, although it counts more than a namespace may
	second, other := turns.ask("tenant", 1), turns.ask("other", countedInNamespace)
	begins(t, "the first decision", first, true)
	begins(t, "a second decision of the namespace", second, false)
	begins(t, "a decision of another namespace", other, true)
	turns.end(first)
	begins(t, "the second decision after the first", second, true)
	turns.end(second)
	turns.end(other)
	if turns.total != 0 || len(turns.counted) != 0 || len(turns.waiting) != 0 {
		t.Errorf("at the end %d pods are counted, in namespaces %v, and %d decisions wait; want none", turns.total, turns.counted, len(turns.waiting))
	}
}

func TestDecisionsOfAllNamespacesAreBounded(t *testing.T) {
	turns := newTurns()
	first := turns.ask("a", countedInNamespace)
	for _, namespace := range []string{"b", "c"} {
		begins(t, "a decision of "+namespace, turns.ask(namespace, countedInNamespace), true)
	}
	large, small := turns.ask("d", countedInNamespace), turns.ask("e", 1)
	begins(t, "a decision beyond the greatest number of pods", large, false)
	begins(t, "a decision that came later", small, false)
	turns.end(first)
	begins(t, "the large decision after one of the others", large, true)
	begins(t, "the small decision", small, false)
	turns.end(large)
	begins(t, "the small decision after the large one", small, true)
}

func TestADecisionWaitsNoLongerThanItsRequest(t *testing.T) {
	turns := newTurns()
	first := turns.ask("a", countedInNamespace)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := turns.enter(ctx, "a", countedInNamespace); !errors.Is(err, context.Canceled) {
		t.Errorf("a decision whose request has ended fails with %v, want the error of the request", err)
	}
	next := turns.ask("a", countedInNamespace)
	turns.end(first)
	begins(t, "the decision that came next", next, true)
}
