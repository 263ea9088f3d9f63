package reservation

import (
	"slices"
	"time"
)

// AdoptInput is what is known when a container ends that only another plugin knew.
type AdoptInput struct {
	// Began is when the other plugin gave the container its addresses.
	Began time.Time
	// Reserved is the owner's reservation, if there is one.
	Reserved *Reservation
	// Known are the owner's attachments in the state.
	Known []Predecessor
}

// IsNewestLife reports whether the container is the owner's newest life: it began after
// everything that the state has of the owner, and no attachment of the owner lives. Such a
// container gets a new number, and its addresses are those to come back to.
func IsNewestLife(in AdoptInput) bool {
	if in.Reserved != nil && !in.Reserved.Deadline.From.Wall.Before(in.Began) {
		return false
	}
	return !slices.ContainsFunc(in.Known, func(p Predecessor) bool { return p.Alive || !p.Since.Wall.Before(in.Began) })
}

// MergeSeen puts together what two sources saw of the containers of a node: named says which
// pod a container is of, nameless does not. Of a container that both saw, the named one
// counts. Nameless containers come first, as the oldest.
func MergeSeen(named, nameless []Attachment) []Attachment {
	rest := slices.DeleteFunc(slices.Clone(nameless), func(n Attachment) bool {
		return slices.ContainsFunc(named, func(a Attachment) bool { return a.ID == n.ID })
	})
	return append(rest, named...)
}
