package testenv

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Known waits until a cache shows all objects of some kinds as they are. Each kind has a watch of its own, so that a
// reconciler may see a pod before the objects that the test made for it. What it does once, it does without them then.
func (e *Env) Known(t testing.TB, cache client.Reader, kinds ...client.ObjectList) {
	t.Helper()
	for _, kind := range kinds {
		Eventually(t, func() error {
			are, known := versionsIn(t, e.Client, kind), versionsIn(t, cache, kind)
			if !maps.Equal(are, known) {
				return fmt.Errorf("the cache shows %q of %q", slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(are)))
			}
			return nil
		})
	}
}

// versionsIn returns the objects of a kind, each with its version.
func versionsIn(t testing.TB, from client.Reader, kind client.ObjectList) map[string]bool {
	t.Helper()
	list, found := kind.DeepCopyObject().(client.ObjectList), map[string]bool{}
	err := from.List(t.Context(), list)
	if err == nil {
		err = meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(client.Object)
			found[client.ObjectKeyFromObject(object).String()+" "+object.GetResourceVersion()] = true
			return nil
		})
	}
	if err != nil {
		t.Fatalf("list %T: %v", kind, err)
	}
	return found
}
