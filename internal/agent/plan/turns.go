package plan

import "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"

// InTurns returns changes in the order in which they are written: objects without a namespace first, then
// one of each namespace in turn. So thousands of objects of one namespace delay those of no other.
func InTurns(changes []Change) []Change {
	var order []string
	of := map[string][]Change{}
	for _, c := range changes {
		ns := c.Object.GetNamespace()
		if of[ns] == nil && ns != "" {
			order = append(order, ns)
		}
		of[ns] = append(of[ns], c)
	}
	all := append(make([]Change, 0, len(changes)), of[""]...)
	for turn := 0; len(all) < len(changes); turn++ {
		for _, ns := range order {
			if turn < len(of[ns]) {
				all = append(all, of[ns][turn])
			}
		}
	}
	return all
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
