package reservation

import (
	"cmp"
	"slices"
)

// CollectInput is what a GC knows of one network.
type CollectInput struct {
	// Attachments are those of the state.
	Attachments []Attachment
	// Valid are the attachments that the runtime knows.
	Valid map[AttachmentID]bool
	// Alive reports whether the network namespace of an attachment is still there.
	Alive func(Attachment) bool
}

// PlanCollect returns the attachments that a GC ends, the newest first, so that an older life
// of the same owner sees the newer one. A placeholder stays while its namespace lives: the
// runtime may know the container, whose ID the state does not.
func PlanCollect(in CollectInput) []Attachment {
	stale := slices.DeleteFunc(slices.Clone(in.Attachments), func(a Attachment) bool {
		return in.Valid[a.ID] || a.ID.IsNetNSPlaceholder() && in.Alive(a)
	})
	slices.SortStableFunc(stale, func(a, b Attachment) int { return cmp.Compare(b.Seq, a.Seq) })
	return stale
}
