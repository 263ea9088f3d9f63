package cni

import (
	"errors"
	"fmt"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/skel"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Check fails when the attachment is not known, or when the earlier result does not name one
// of its addresses.
func (p *Plugin) Check(args *skel.CmdArgs) error {
	conf, err := args.Conf.ParseEnd()
	if err != nil {
		return err
	}
	id := reservation.AttachmentID{Network: conf.Network, ContainerID: args.ContainerID, IfName: args.IfName}
	err = p.view(conf, func(tx *persistence.Tx) error {
		a, found, err := tx.Attachment(id)
		if err != nil {
			return err
		}
		if !found {
			return p.checkOutside(tx, conf, id)
		}
		return netconf.Compare(a, conf.PrevResult)
	})
	if errors.Is(err, persistence.ErrNoState) {
		return p.checkOutside(nil, conf, id)
	}
	return err
}

// checkOutside looks for a container that the state does not know.
func (p *Plugin) checkOutside(tx *persistence.Tx, conf *netconf.Config, id reservation.AttachmentID) error {
	addrs, err := p.outside(tx, conf, p.Now()).Find(id)
	if err != nil {
		return err
	}
	if len(addrs) == 0 {
		return fmt.Errorf("%w %s", netconf.ErrUnknown, id.ContainerID)
	}
	return netconf.Compare(reservation.Attachment{ID: id, Addresses: addrs}, conf.PrevResult)
}

// Status fails when each ADD must fail: the configuration is invalid, the boot is not known, or the state cannot be read
// or locked. A node whose plugin fails STATUS is taken out of service, which neither a missing agent nor a full pool is
// worth.
func (p *Plugin) Status(args *skel.CmdArgs) error {
	conf, err := args.Conf.ParseStatus()
	if err = errors.Join(err, p.ClockErr); err == nil {
		err = p.view(conf, func(*persistence.Tx) error { return nil })
	}
	if err != nil && !errors.Is(err, persistence.ErrNoState) {
		return fmt.Errorf("%w: %w", errStatus, err)
	}
	return nil
}
