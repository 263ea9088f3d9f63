package reservation

import (
	"cmp"
	"slices"
)

// CollectInput holds the facts that a GC knows about one network.
type CollectInput struct {
	// Attachments are the attachments in the state.
	Attachments []Attachment
	// Valid are the attachments that the runtime knows.
	Valid map[AttachmentID]bool
	// Alive reports whether the network namespace of an attachment exists, and still has one of its addresses.
	Alive func(Attachment) bool
}

// PlanCollect returns the attachments that a GC ends. The newest come first, so that the end of an older life of the same
// owner sees the newer one. An attachment whose namespace has the address stays, also when the runtime does not name it:
// the list may be wrong, and no other pod could use the address.
func PlanCollect(in CollectInput) []Attachment {
	stale := slices.DeleteFunc(slices.Clone(in.Attachments), func(a Attachment) bool {
		return in.Valid[a.ID] || in.Alive(a)
	})
	return newestFirst(stale)
}

// newestFirst returns attachments by their number, the highest first. Attachments with the same number keep their order.
// The sort is that of pointers, which the plugin links anyway: each sort of another type takes 10 kB.
func newestFirst(all []Attachment) []Attachment {
	type numbered struct {
		Attachment

		at int
	}
	order := make([]*numbered, len(all))
	for i, a := range all {
		order[i] = &numbered{a, i}
	}
	slices.SortFunc(order, func(a, b *numbered) int {
		return cmp.Or(cmp.Compare(b.Seq, a.Seq), cmp.Compare(a.at, b.at))
	})
	sorted := make([]Attachment, len(all))
	for i, n := range order {
		sorted[i] = n.Attachment
	}
	return sorted
}
