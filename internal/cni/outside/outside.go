// Package outside is the seam between the verbs and everything that knows of addresses
// beside the state: another plugin's files, or what was found when the state was rebuilt.
//
// A verb asks the sources once, inside its transaction. If a node has no files
// of another plugin and no rebuilt state, there is no source.
package outside

import (
	"errors"
	"log/slog"
	"net/netip"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// ErrBusy is returned when another plugin holds an address at this moment; the verb should
// be tried again.
var ErrBusy = errors.New("another plugin holds the address")

// Verb is what a verb shows to its sources.
type Verb struct {
	// Tx is the verb's transaction; nil where there is no state, or none that can be written.
	Tx   *persistence.Tx
	Conf *netconf.Config
	Now  reservation.Moment
	Log  *slog.Logger
	// End ends an attachment of the state as a DEL would.
	End func(reservation.Attachment) error
}

// Opener returns a source, or nil when the source knows nothing of the verb's network.
type Opener func(Verb) Source

// Source knows of addresses that are not in the state.
type Source interface {
	// Add returns what concerns a new attachment.
	Add(a reservation.Attachment) (Add, error)
	// End returns what concerns an attachment that ends; known tells that the state has it.
	End(a reservation.Attachment, known bool) (End, error)
	// EndAlone does the same where the state cannot be asked: there is none, or it cannot be
	// written.
	EndAlone(a reservation.Attachment, why Reason) (Alone, error)
	// Find returns the addresses of a container that the state does not know.
	Find(id reservation.AttachmentID) ([]netip.Addr, error)
	// Collect prepares a GC that keeps the valid attachments.
	Collect(valid map[reservation.AttachmentID]bool) (Collected, error)
}

// Add is what sources know about a new attachment and its pool. Every field may be empty.
type Add struct {
	// Existing is what the container has on its interface already.
	Existing *reservation.Attachment
	// Living is a predecessor that lives.
	Living *reservation.Attachment
	// Kept is the reservation of the owner.
	Kept *reservation.Reservation
	// Denies says why addresses that the owner had cannot be handed out again.
	Denies func([]netip.Addr) error
	// Taken reports whether an address is held outside of the state.
	Taken func(netip.Addr) (bool, error)
	// Cursor returns the address last handed out of a range set; not valid for none.
	Cursor func(set int) netip.Addr
	// Reclaim are ways to free addresses that nothing needs, the cheapest first.
	Reclaim []func() error
	// Stored is called in the transaction, once the attachment is in the state.
	Stored func(reservation.Attachment) error
	// Done is called after the transaction, with its error.
	Done func(reservation.Attachment, error) error
}

// End is what one source knows about an attachment that ends.
type End struct {
	// Attachment is to be ended as if the state had it; nil for none.
	Attachment *reservation.Attachment
	// Stored tells that the state has the attachment.
	Stored bool
	// Reason says in the log why the addresses are free; "" for the plan's own reason.
	Reason string
	// After is called once the end is on disk; nil for nothing.
	After func() error
}

// Reason says why the state cannot be asked.
type Reason uint8

const (
	// NoState is a node on which no state was made yet.
	NoState Reason = iota
	// Unwritable is a state that is broken, or on a disk that takes no writes.
	Unwritable
)

// Alone is what sources know about an attachment that ends without the state.
type Alone struct {
	// NeedState tells that a state has to be made for this end.
	NeedState bool
	// After frees what the sources hold.
	After func() error
}

// Collected is the part of a GC that is outside of the state; nil for none. It is called after the transaction, with the
// attachments that ended in it and its error.
type Collected func(ended []reservation.Attachment, err error) error
