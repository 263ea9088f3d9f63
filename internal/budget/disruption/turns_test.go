package disruption

import (
	"context"
	"errors"
	"testing"
)

func TestDecisionsOfANamespaceLeaveRoomForOthers(t *testing.T) {
	turns := NewJudge(Options{}).turns
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	enter := func(namespace string, pods int) (leave func()) {
		t.Helper()
		leave, err := turns.Enter(t.Context(), namespace, pods)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	end := enter("tenant", 10*limitCounted.Each) // alone, although it counts more than a namespace may
	if _, err := turns.Enter(gone, "tenant", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a second decision of the namespace: %v, want that it waits", err)
	}
	for _, namespace := range []string{"a", "b"} {
		defer enter(namespace, limitCounted.Each)()
	}
	if _, err := turns.Enter(gone, "c", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a decision beyond the bound of all: %v, want that it waits", err)
	}
	end()
	enter("tenant", 1)()
}
