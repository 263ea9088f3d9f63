package cni

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/internal/cni/skel"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// GC ends every attachment of the network that the runtime does not name as valid, as a DEL
// would. Reservations are never in that list, and never touched. Without the list nothing is
// known, and nothing is done. An address that a network namespace still has is kept: a list that
// lacks a running container must not give its address to another.
func (p *Plugin) GC(args *skel.CmdArgs) error {
	conf, err := args.Conf.ParseEnd()
	if err != nil {
		return err
	}
	valid, known, err := args.Conf.ValidAttachments()
	if err = errors.Join(err, p.ClockErr); err != nil || !known {
		return err
	}
	var ended []reservation.Attachment
	var beside outside.Collected
	store := p.store(conf, nil)
	if begun, lookErr := store.Initialized(); lookErr != nil || begun {
		err = store.Update(context.Background(), describing(conf, func(tx *persistence.Tx) (err error) { //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
			if beside, err = p.outside(tx, conf, p.Now()).Collect(valid); err != nil {
				return err
			}
			ended, err = p.collect(tx, conf, valid)
			return err
		}))
	}
	if beside == nil { // there is no state, or it is locked
		var collectErr error
		if beside, collectErr = p.outside(nil, conf, p.Now()).Collect(valid); collectErr != nil {
			return collectErr
		}
	}
	return beside(ended, err)
}

// collect ends the attachments that are not valid and returns them.
func (p *Plugin) collect(tx *persistence.Tx, conf *netconf.Config, valid map[reservation.AttachmentID]bool) ([]reservation.Attachment, error) {
	all, err := tx.Attachments(conf.Network)
	if err != nil {
		return nil, err
	}
	stale := reservation.PlanCollect(reservation.CollectInput{Attachments: all, Valid: valid, Alive: func(a reservation.Attachment) bool {
		return p.isIn(a.NetNS, a.Since.BootID, a.Addresses)
	}})
	if len(stale) == 0 {
		return nil, persistence.ErrUnchanged
	}
	now, went := p.Now(), map[string][]netip.Addr{}
	for _, a := range stale {
		p.Log.Info("Garbage collected", "container", a.ID.ContainerID, "interface", a.ID.IfName, "pod", a.Owner.String())
		plan, err := p.end(tx, a, now, false)
		if err != nil {
			return nil, err
		}
		went[outcomeOfEnd(plan)] = append(went[outcomeOfEnd(plan)], a.Addresses...)
	}
	p.entry.setOutcome(outcomeEnded, fmt.Sprintf("%d containers that the runtime does not know: reserved %v, freed %v", len(stale), went[outcomeReserved], went[outcomeFreed]), nil)
	return stale, nil
}
