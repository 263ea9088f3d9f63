package cniplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/internal/skel"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Check fails when the attachment is not known, or does not hold an address of
// ours that the earlier result names.
func (p *Plugin) Check(args *skel.CmdArgs) error {
	conf, err := parseEnd(args.StdinData)
	if err != nil {
		return err
	}
	id := reservation.AttachmentID{Network: conf.network, ContainerID: args.ContainerID, IfName: args.IfName}
	err = p.view(conf, func(tx *persistence.Tx) error {
		a, found, err := tx.Attachment(id)
		if err != nil {
			return err
		}
		if !found {
			return conf.checkHostLocal(id)
		}
		return compare(a, conf.prevResult)
	})
	if errors.Is(err, persistence.ErrNoState) {
		return conf.checkHostLocal(id)
	}
	return err
}

// checkHostLocal looks for a container of host-local's time.
func (c *config) checkHostLocal(id reservation.AttachmentID) error {
	files, err := c.hostLocal.Of(id.ContainerID, id.IfName, nil)
	if err != nil {
		return err
	}
	a := reservation.Attachment{ID: id}
	for _, f := range files {
		if !f.Holder.Mirrored {
			a.Addresses = append(a.Addresses, f.Addr)
		}
	}
	if len(a.Addresses) == 0 {
		return fmt.Errorf("%w %s", errUnknown, id.ContainerID)
	}
	return compare(a, c.prevResult)
}

// compare looks for the attachment's addresses in the earlier result, which may
// hold others too, of other plugins.
func compare(a reservation.Attachment, prevResult json.RawMessage) error {
	if len(prevResult) == 0 || string(prevResult) == "null" {
		return nil
	}
	var prev struct {
		IPs []struct {
			Address netip.Prefix `json:"address"`
		} `json:"ips"`
	}
	if err := json.Unmarshal(prevResult, &prev); err != nil {
		return fmt.Errorf("prevResult: %w: %w", err, errConfig)
	}
	for _, want := range a.Addresses {
		if !slices.ContainsFunc(prev.IPs, func(ip struct {
			Address netip.Prefix `json:"address"`
		},
		) bool {
			return ip.Address.Addr() == want
		}) {
			return fmt.Errorf("%w %s: it holds %s, which prevResult does not name", errUnknown, a.ID.ContainerID, want)
		}
	}
	return nil
}

// Status fails only when the state cannot be read: a node that answers otherwise is
// taken out of service, which neither a missing agent nor a full pool is worth.
func (p *Plugin) Status(args *skel.CmdArgs) error {
	conf, err := parseEnd(args.StdinData)
	if err != nil {
		return err
	}
	err = p.view(conf, func(*persistence.Tx) error { return nil })
	if err != nil && !errors.Is(err, persistence.ErrNoState) && !errors.Is(err, persistence.ErrLocked) {
		return fmt.Errorf("%w: %w", errStatus, err)
	}
	return nil
}
