// Package recovery rebuilds a lost or damaged state from what the node knows (rule 6),
// and quarantines addresses: those that a running pod has and no record explains.
//
// Most of its tests run whole verbs over damaged files: recover, quarantine, placeholder and
// running in internal/cni.
package recovery

import (
	"cmp"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/node"
	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Recovery rebuilds the state of one node.
type Recovery struct {
	Node node.Node
	// Interfaces lists the interfaces in the network namespaces of the node; none when nil.
	Interfaces func() ([]machine.Interface, error)
	// Others tells what another plugin's files say.
	Others Others
	// Log takes what a person should know of a rebuild that no verb caused.
	Log *slog.Logger
}

// Others tells what another plugin's files say of a network.
type Others interface {
	// Holds reports whether another plugin holds the attachment, so that it needs no second
	// holder.
	Holds(c *netconf.Config, a reservation.Attachment) bool
	// Has reports whether another plugin holds the address.
	Has(c *netconf.Config, addr netip.Addr) bool
	// Mirrored returns the attachments that files name which only repeat the state, without
	// their pods.
	Mirrored(c *netconf.Config) ([]reservation.Attachment, error)
}

// Open returns the source of a state that was rebuilt, or cannot be read.
func (r *Recovery) Open(v outside.Verb) outside.Source { return &source{Recovery: r, verb: v} }

// stateDir returns the directory of the state of a network.
func stateDir(c *netconf.Config) string { return cmp.Or(c.DataDir, persistence.DefaultDir) }

// source is what a rebuilt state still has to settle.
type source struct {
	*Recovery
	verb outside.Verb
}

// Add quarantines, at the first ADD of a network after a rebuild, the addresses that
// nothing explains.
func (s *source) Add(a reservation.Attachment) (outside.Add, error) {
	if err := s.quarantineOnce(); err != nil {
		return outside.Add{}, err
	}
	add := outside.Add{Reclaim: []func() error{s.releaseQuarantined}}
	id := a.ID
	id.ContainerID = reservation.NetNSPlaceholder(a.NetNS)
	has, found, err := s.verb.Tx.Attachment(id)
	if found && s.Node.Alive(has) {
		add.Existing = &has
	}
	return add, err
}

// End ends what the state holds for a namespace in which it could not tell the container.
func (s *source) End(a reservation.Attachment, known bool) (outside.End, error) {
	if known {
		return outside.End{}, nil
	}
	id := a.ID
	id.ContainerID = reservation.NetNSPlaceholder(reservation.NetNS{Path: a.NetNS.Path})
	has, found, err := s.verb.Tx.Attachment(id)
	if err != nil || !found {
		return outside.End{}, err
	}
	return outside.End{Attachment: &has, Stored: true, Reason: "found in the namespace while the state was rebuilt"}, nil
}

// EndAlone needs a state where libcni's cache names the container: its address came from a
// state that was removed.
func (s *source) EndAlone(a reservation.Attachment, why outside.Reason) (outside.Alone, error) {
	if why != outside.NoState {
		return outside.Alone{}, nil
	}
	ours, err := s.cached(s.verb.Conf)
	return outside.Alone{NeedState: slices.ContainsFunc(ours, func(o reservation.Attachment) bool { return o.ID == a.ID })}, err
}

// Find finds nothing: a rebuilt state is a state.
func (s *source) Find(reservation.AttachmentID) ([]netip.Addr, error) { return nil, nil }

// Collect has no part in a GC.
func (s *source) Collect(map[reservation.AttachmentID]bool) (outside.Collected, error) {
	return nil, nil
}
