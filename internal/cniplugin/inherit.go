package cniplugin

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/limpet-io/limpet/pkg/hostlocal"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// heritage is what the ancestor wrote of an owner: what it keeps for it, or which container
// of it still lives. At most one of them is set.
type heritage struct {
	heir   *hostlocal.Reserved
	living *reservation.Attachment
}

// inherit returns what the ancestor wrote of an owner on this network. It stamped the end
// of an earlier container on the record of one that runs, so that the time of an end
// counts only where the container is gone.
func (p *Plugin) inherit(c *config, o reservation.Owner) (heritage, error) {
	if !o.Named() {
		return heritage{}, nil
	}
	r, found, err := c.ancestor.Of(o.Namespace, o.Pod)
	if err != nil || !found || r.IfName != o.IfName {
		return heritage{}, err
	}
	taken, err := takenIn(c.hostLocal, r.Addr) // by whichever of the pod's containers
	if err != nil || !taken {
		return heritage{}, err // of another network, or given back
	}
	if living := p.livingOf(c, r); living != nil {
		living.Owner = o
		if !living.AnnotationsSeen {
			living.Retain = min(r.For, c.maxReservation)
		}
		return heritage{living: living}, nil
	}
	if r.Released.IsZero() {
		return heritage{}, nil
	}
	return heritage{heir: &r}, nil
}

// livingOf returns the container of a record as libcni's cache knows it, if its network
// namespace is still there; nil otherwise.
func (p *Plugin) livingOf(c *config, r hostlocal.Reserved) *reservation.Attachment {
	id := reservation.AttachmentID{Network: c.network, ContainerID: r.ContainerID, IfName: r.IfName}
	data, err := readAtMost(filepath.Join(p.ResultsDir, fmt.Sprintf("%s-%s-%s", id.Network, id.ContainerID, id.IfName)), maxCacheFile)
	if err != nil {
		return nil // as after its DEL
	}
	known, ok := parseCached(data, c.maxReservation)
	a := known.attachment
	if !ok || a.ID != id || !slices.Contains(a.Addresses, r.Addr) {
		return nil
	}
	now, there := p.NetNS(a.NetNS.Path)
	a.NetNS = now
	if !there || !p.alive(a) {
		return nil
	}
	return &a
}

// predecessor returns the living container of the ancestor's time, unless the state knows
// it or gave its address to another: there is nothing to wait for then.
func (h heritage) predecessor(tx *persistence.Tx) (*reservation.Attachment, error) {
	if h.living == nil {
		return nil, nil
	}
	for _, a := range h.living.Addresses {
		held, err := tx.Held(h.living.ID.Network, a)
		if held || err != nil {
			return nil, err
		}
	}
	return h.living, nil
}

// heldByOthers says that the state gave away what the ancestor kept for an owner; nil where
// nobody holds it, or the owner does.
func (h heritage) heldByOthers(tx *persistence.Tx, o reservation.Owner) error {
	if h.heir == nil {
		return nil
	}
	held, err := tx.Held(o.Network, h.heir.Addr)
	if err != nil || !held {
		return err
	}
	own, err := tx.AttachmentsOf(o)
	if err != nil {
		return err
	}
	kept, _, err := tx.Reservation(o)
	for _, a := range own {
		kept.Addresses = append(kept.Addresses, a.Addresses...)
	}
	if err != nil || slices.Contains(kept.Addresses, h.heir.Addr) {
		return err
	}
	return fmt.Errorf("%s: %w by another", h.heir.Addr, reservation.ErrHeld)
}

// inheritance puts what the ancestor kept in our words.
func (c *config) inheritance(o reservation.Owner, r *hostlocal.Reserved) *reservation.Reservation {
	if r == nil {
		return nil
	}
	retain := min(r.For, c.maxReservation)
	return &reservation.Reservation{
		Owner: o, ContainerID: r.ContainerID, Addresses: []netip.Addr{r.Addr}, Retain: retain,
		Deadline: reservation.Deadline{From: reservation.Moment{Wall: r.Released}, For: retain},
	}
}

// came removes what the ancestor kept for a pod that has come back.
func (c *config) came(heir *hostlocal.Reserved) error {
	if heir == nil {
		return nil
	}
	h, found, err := c.hostLocal.Holder(heir.Addr)
	if err != nil || !found || h.Mirrored {
		return errors.Join(err, c.ancestor.Remove(*heir))
	}
	return c.clear(remnant{files: []hostlocal.Entry{{Addr: heir.Addr, Holder: h}}, record: heir})
}

// remnantBeside finds what is on disk of an attachment that the state knows as well: it was
// adopted from libcni's cache, since the address file names an earlier container. It looks
// at the attachment's addresses only.
func (c *config) remnantBeside(a reservation.Attachment) (remnant, error) {
	var r remnant
	if a.Owner.Named() {
		record, found, err := c.ancestor.Of(a.Owner.Namespace, a.Owner.Pod)
		if err != nil {
			return r, err
		}
		if found && record.ContainerID == a.ID.ContainerID && record.IfName == a.ID.IfName && slices.Contains(a.Addresses, record.Addr) {
			r.record = &record
		}
	}
	for _, addr := range a.Addresses {
		h, found, err := c.hostLocal.Holder(addr)
		if err != nil {
			return r, err
		}
		if found && !h.Mirrored && (h.Is(a.ID.ContainerID, a.ID.IfName) || r.record != nil && r.record.Addr == addr) {
			r.files = append(r.files, hostlocal.Entry{Addr: addr, Holder: h})
		}
	}
	return r, nil
}
