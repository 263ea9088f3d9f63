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
	// Alive reports whether the network namespace of an attachment exists.
	Alive func(Attachment) bool
}

// PlanCollect returns the attachments that a GC ends. The newest come first, so that the end of an older life of the same
// owner sees the newer one. A placeholder stays while its namespace exists: the runtime may know the container, and the
// state does not know the container ID.
func PlanCollect(in CollectInput) []Attachment {
	stale := slices.DeleteFunc(slices.Clone(in.Attachments), func(a Attachment) bool {
		return in.Valid[a.ID] || a.ID.IsNetNSPlaceholder() && in.Alive(a)
	})
	slices.SortStableFunc(stale, func(a, b Attachment) int { return cmp.Compare(b.Seq, a.Seq) })
	return stale
}
