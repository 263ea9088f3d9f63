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
