package cniplugin

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/internal/skel"
	"github.com/limpet-io/limpet/pkg/hostlocal"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// mirrorAdd writes host-local's files of an attachment, if that is wished. The first time
// it writes those of all attachments of the network. Once it is wished no more, it learns
// from the files for the last time whose DEL went to host-local.
func (p *Plugin) mirrorAdd(tx *persistence.Tx, conf *config, a *reservation.Attachment) error {
	was := tx.Mirrored(conf.network)
	if was && !conf.mirror {
		if err := p.sweepUnmirrored(tx, conf, a.Since, a.ID); err != nil {
			return err
		}
	}
	if was != conf.mirror {
		if err := tx.SetMirrored(conf.network, conf.mirror); err != nil {
			return fmt.Errorf("remember mirroring: %w", err)
		}
	}
	switch {
	case !conf.mirror:
		return nil
	case !was:
		return p.mirrorAll(tx, conf)
	}
	return conf.mirrorFiles(*a)
}

func (p *Plugin) mirrorAll(tx *persistence.Tx, conf *config) error {
	all, err := tx.Attachments(conf.network)
	if err != nil {
		return err
	}
	for _, a := range all {
		err := conf.mirrorFiles(a)
		if errors.Is(err, hostlocal.ErrTaken) { // it came between a look and the lock; neither can be taken back now
			p.Log.Warn("An address has two holders", "container", a.ID.ContainerID, "error", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (c *config) mirrorFiles(a reservation.Attachment) error {
	for _, addr := range a.Addresses {
		if err := c.hostLocal.Mirror(addr, a.ID.ContainerID, a.ID.IfName); err != nil {
			return err
		}
		if n := c.setOf(addr); n < len(c.sets) {
			if err := c.hostLocal.MirrorCursor(n, addr); err != nil {
				return err
			}
		}
	}
	return nil
}

// unmirror removes the mirrored files of an attachment that is no more. It looks for them
// whether mirroring is wished or not, so that none outlasts the wish.
func (c *config) unmirror(a reservation.Attachment) error {
	var errs []error
	for _, addr := range a.Addresses {
		errs = append(errs, c.hostLocal.Remove(addr, hostlocal.Holder{ContainerID: a.ID.ContainerID, IfName: a.ID.IfName, Mirrored: true}))
	}
	return errors.Join(errs...)
}

// strayMirrors finds the mirrored files of containers that are not valid. The caller has the
// lock of the state, or they could be those of an ADD that has not come to its end.
func (c *config) strayMirrors(valid map[reservation.AttachmentID]bool) remnant {
	all, _ := c.hostLocal.Entries() // those that can be read; clearInvalid tells of the others
	return remnant{mirrored: slices.DeleteFunc(all, func(e hostlocal.Entry) bool {
		id := reservation.AttachmentID{Network: c.network, ContainerID: e.Holder.ContainerID, IfName: e.Holder.IfName}
		return !e.Holder.Mirrored || valid[id]
	})}
}

// sweepUnmirrored ends attachments whose DEL went to host-local: their files are gone, and
// so are their namespaces. The one that is being made may have none yet.
func (p *Plugin) sweepUnmirrored(tx *persistence.Tx, conf *config, now reservation.Moment, made reservation.AttachmentID) error {
	if !tx.Mirrored(conf.network) {
		return nil
	}
	all, err := tx.Attachments(conf.network)
	if err != nil {
		return err
	}
	for _, a := range all {
		has := func(addr netip.Addr) bool {
			h, _, holderErr := conf.hostLocal.Holder(addr)
			err = errors.Join(err, holderErr)
			return h.Is(a.ID.ContainerID, a.ID.IfName)
		}
		if a.ID == made || p.alive(a) || slices.ContainsFunc(a.Addresses, has) || err != nil {
			continue
		}
		if _, err := p.end(tx, a, now, false); err != nil {
			return err
		}
	}
	return err
}

// mirrored returns the attachments that mirrored files name, without their pods. Of which
// container an address is, is what a lost state needs most.
func (c *config) mirrored() ([]reservation.Attachment, error) {
	all, err := c.hostLocal.Entries()
	if err != nil {
		return nil, err
	}
	at := map[reservation.AttachmentID]int{}
	var found []reservation.Attachment
	for _, e := range all {
		if !e.Holder.Mirrored || !skel.ValidName(e.Holder.ContainerID) || !skel.ValidIfName(e.Holder.IfName) {
			continue // or no verb could name it
		}
		id := reservation.AttachmentID{Network: c.network, ContainerID: e.Holder.ContainerID, IfName: e.Holder.IfName}
		if i, known := at[id]; known {
			found[i].Addresses = append(found[i].Addresses, e.Addr)
			continue
		}
		at[id] = len(found)
		found = append(found, reservation.Attachment{
			ID: id, Owner: reservation.Owner{Network: id.Network, IfName: id.IfName},
			Addresses: []netip.Addr{e.Addr}, Since: reservation.Moment{Wall: e.Changed},
		})
	}
	return found, nil
}
