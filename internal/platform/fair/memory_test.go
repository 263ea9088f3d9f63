package fair_test

import (
	"testing"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

// A namespace forgets its own oldest values, and the fullest one makes room for others.
func TestAMemoryIsBounded(t *testing.T) {
	var m fair.Memory[int, int]
	knows := func(namespace string, key int, want bool) {
		t.Helper()
		if value, known := m.Get(namespace, key); known != want || known && value != key {
			t.Errorf("%d of %s: %d, known %t, want %t", key, namespace, value, known, want)
		}
	}
	most := fair.Bounds{Each: 3, All: 4}
	for i := range 4 {
		m.Put(most, "tenant", i, i)
	}
	knows("tenant", 0, false)
	knows("tenant", 1, true)
	m.Put(most, "tenant", 1, 1) // so that 2 is the oldest
	m.Put(most, "shop", 0, 0)
	m.Put(most, "shop", 1, 1)
	knows("tenant", 2, false)
	knows("tenant", 1, true)
	knows("tenant", 3, true)
	knows("shop", 0, true)
	if n := m.Len(); n != most.All {
		t.Errorf("%d values, want %d", n, most.All)
	}
	m.Forget("shop", 0)
	m.Forget("shop", 7)
	m.Forget("none", 0)
	knows("shop", 0, false)
	knows("tenant", 3, true)
	if n := m.Len(); n != 3 {
		t.Errorf("%d values are left, want 3", n)
	}
}

// Each of many namespaces has one value: a new one takes the place of another one.
func TestAFullMemoryTakesNewNamespaces(t *testing.T) {
	var m fair.Memory[int, int]
	for _, namespace := range []string{"a", "b", "c"} {
		m.Put(fair.Bounds{All: 2}, namespace, 0, 0)
		if _, known := m.Get(namespace, 0); !known || m.Len() > 2 {
			t.Errorf("%s is known: %t, of %d values", namespace, known, m.Len())
		}
	}
}
