package plan

import (
	"slices"

	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// InTurns returns changes in the order in which they are written: objects without a namespace first, then
// one of each namespace in turn. So thousands of objects of one namespace delay those of no other.
func InTurns(changes []Change) []Change {
	none := func(c Change) bool { return c.Object.GetNamespace() == "" }
	first := slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return !none(c) })
	rest := slices.DeleteFunc(slices.Clone(changes), none)
	return append(first, fair.InTurns(rest, func(c Change) string { return c.Object.GetNamespace() })...)
}

// CountsOnly reports whether a change only tells other numbers of a pool. Each start and end of a pod
// changes them. That no address is free, or no share is left, is a condition and not such a change.
func CountsOnly(c Change, shown Object) bool {
	was, isPool := shown.(*v1alpha1.NodeIPPool)
	if !isPool || c.Verb != Update {
		return false
	}
	same, isPool := c.Object.DeepCopyObject().(*v1alpha1.NodeIPPool)
	if !isPool {
		return false
	}
	same.Status.Attached, same.Status.Reserved, same.Status.Free = was.Status.Attached, was.Status.Reserved, was.Status.Free
	same.Status.ReservedUntil = was.Status.ReservedUntil
	return equal(was, same)
}

// EndOnly reports whether a change only tells that the pod of a shown attachment has ended, and that its
// addresses are reserved. Most pods are back soon.
func EndOnly(c Change, shown Object) bool {
	was, attached := shown.(*v1alpha1.IPReservation)
	if !attached || c.Verb != Update || was.Status.State != v1alpha1.IPAttached {
		return false
	}
	same, reserved := c.Object.DeepCopyObject().(*v1alpha1.IPReservation)
	if !reserved || same.Status.State != v1alpha1.IPReserved {
		return false
	}
	same.Status.State, same.Status.Until = was.Status.State, was.Status.Until
	return equal(was, same)
}
