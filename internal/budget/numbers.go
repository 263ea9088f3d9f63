package budget

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// DesiredOf returns how many pods must stay available. Percentages are rounded up, as by a
// PodDisruptionBudget: 25% of ten pods are three that may be unavailable. It returns false
// when the answer needs the size and the size is not known, or the budget sets no number.
func DesiredOf(maxUnavailable, minAvailable *intstr.IntOrString, size int32, known bool) (int32, bool) {
	switch {
	case minAvailable != nil && minAvailable.Type == intstr.Int:
		return max(minAvailable.IntVal, 0), true
	case minAvailable != nil:
		n, ok := scaled(*minAvailable, size)
		return n, ok && (known || isZero(*minAvailable))
	case maxUnavailable != nil:
		n, ok := scaled(*maxUnavailable, size)
		return max(size-n, 0), ok && (known || isAll(*maxUnavailable))
	}
	return math.MaxInt32, false
}

// isZero and isAll are percentages whose result is the same for every size.
func isZero(v intstr.IntOrString) bool { return v.StrVal == "0%" }
func isAll(v intstr.IntOrString) bool  { return v.Type == intstr.String && v.StrVal == "100%" }

// scaled is a number, or a percentage of a size, never below 0.
func scaled(v intstr.IntOrString, size int32) (int32, bool) {
	n, err := intstr.GetScaledValueFromIntOrPercent(&v, int(size), true)
	if err != nil {
		return 0, false
	}
	return int32(min(max(n, 0), math.MaxInt32)), true
}

// desired is DesiredOf for a budget.
func (b *Budget) desired() (int32, bool) {
	return DesiredOf(b.MaxUnavailable, b.MinAvailable, b.Expected, b.Unknown == "")
}

// Loose is how many pods the budget lets go one after the other: with each pod that no workload makes
// again, the size gets smaller. A number that does not depend on the size keeps them.
func (b *Budget) Loose() int {
	if _, fixed := DesiredOf(b.MaxUnavailable, b.MinAvailable, 0, false); fixed || b.letsNoneGo() {
		return 0
	}
	return b.Bare
}

// letsNoneGo reports whether all pods of the budget must stay, whatever the size.
func (b *Budget) letsNoneGo() bool {
	if b.MinAvailable != nil {
		return isAll(*b.MinAvailable)
	}
	return b.MaxUnavailable != nil && (isZero(*b.MaxUnavailable) || *b.MaxUnavailable == intstr.FromInt32(0))
}

// Count returns the numbers that the budget shows. A pod of which the book has a living entry
// is not available.
func Count(b Budget, book ledger.Book, now time.Time) Numbers {
	n := Numbers{Total: b.Expected, Current: b.available(book, now, ""), Unknown: b.Unknown}
	desired, known := b.desired()
	if b.Unknown != "" {
		n.Total = int32(len(b.Pods))
	}
	if !known {
		n.Desired = n.Total
		return n
	}
	n.Desired = desired
	n.Allowed = max(n.Current-desired, 0)
	if b.MaxUnavailable != nil {
		most, _ := scaled(*b.MaxUnavailable, b.Expected)
		n.Allowed = min(n.Allowed, most)
	}
	return n
}

// available counts the available pods, without the pod of one UID.
func (b *Budget) available(book ledger.Book, now time.Time, without string) int32 {
	n := int32(0)
	for i := range b.Pods {
		if p := &b.Pods[i]; p.UID != without && b.counts(p) && !inUse(book, p.UID, now) {
			n++
		}
	}
	return n
}

// counts reports whether a pod is available for this budget, as far as the book has no entry.
func (b *Budget) counts(p *Pod) bool {
	return p.Available && !p.Finished && (!b.Rules.KeepPlace || !p.Displaced)
}

// inUse reports whether the book has an entry of the pod that holds its unit.
func inUse(book ledger.Book, uid string, now time.Time) bool {
	e, ok := book.Entries[uid]
	return ok && e.Holds(now)
}
