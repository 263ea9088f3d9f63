package testenv

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Name returns a name that no other test of the package uses.
func (e *Env) Name(prefix string) string { return fmt.Sprintf("%s-%d", prefix, e.names.Add(1)) }

// Node makes a Ready node with a name of its own.
func (e *Env) Node(t testing.TB) Node {
	t.Helper()
	node := ANode(e.Name("node"))
	e.Create(t, node.Node)
	return node
}

// Read gets an object that must exist.
func (e *Env) Read(t testing.TB, key client.ObjectKey, into client.Object) {
	t.Helper()
	if err := e.Client.Get(t.Context(), key, into); err != nil {
		t.Fatalf("get %T %s: %v", into, key, err)
	}
}

// Change edits an object until no other writer is in between.
func (e *Env) Change(t testing.TB, o client.Object, edit func()) {
	t.Helper()
	Eventually(t, func() error {
		e.Read(t, client.ObjectKeyFromObject(o), o)
		edit()
		return e.Client.Update(t.Context(), o)
	})
}

// ChangeStatus edits the status of an object until no other writer is in between. It begins with the object as it is given.
func (e *Env) ChangeStatus(t testing.TB, o client.Object, edit func()) {
	t.Helper()
	Eventually(t, func() error {
		edit()
		err := e.Client.Status().Update(t.Context(), o)
		switch {
		case apierrors.IsConflict(err):
			e.Read(t, client.ObjectKeyFromObject(o), o)
		case err != nil:
			t.Fatalf("update status of %T %s: %v", o, o.GetName(), err)
		}
		return err
	})
}

// Annotate sets an annotation; an empty value removes the annotation.
func (e *Env) Annotate(t testing.TB, o client.Object, key, value string) {
	t.Helper()
	text := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if value == "" {
		text = fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, key)
	}
	e.Patch(t, o, string(text))
}

// Patch merges JSON into an object, also while other programs write to the object.
func (e *Env) Patch(t testing.TB, o client.Object, text string) {
	t.Helper()
	if err := e.Client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatalf("patch %T %s with %s: %v", o, o.GetName(), text, err)
	}
}

// Cordon makes a node unschedulable.
func (e *Env) Cordon(t testing.TB, node *corev1.Node) {
	t.Helper()
	e.Patch(t, node, `{"spec":{"unschedulable":true}}`)
}

// Remove deletes an object without a grace period.
func (e *Env) Remove(t testing.TB, o client.Object) {
	t.Helper()
	if err := e.Client.Delete(t.Context(), o, client.GracePeriodSeconds(0)); err != nil {
		t.Fatalf("remove %T %s: %v", o, o.GetName(), err)
	}
}

// diff returns an error where two values differ.
func diff(what string, want, got any) error {
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}
