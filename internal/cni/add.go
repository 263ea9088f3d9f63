package cni

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/internal/cni/skel"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Add hands out one address of each range set, in one transaction: the addresses that the
// pod had before, or else the next free ones.
func (p *Plugin) Add(args *skel.CmdArgs) error {
	conf, err := args.Conf.ParseAdd()
	if err != nil {
		return err
	}
	var dns types.DNS
	if conf.ResolvConf != "" {
		if dns, err = readResolvConf(conf.ResolvConf); err != nil {
			return err
		}
	}
	if err := errors.Join(p.podErr, p.ClockErr); err != nil {
		return err
	}
	if err := follow(conf); err != nil {
		return err
	}
	wanted, err := conf.Assign(p.pod)
	if err != nil {
		return err
	}
	a, warnings := conf.Attachment(p.pod, args.ContainerID, args.IfName)
	for _, w := range warnings {
		p.Log.Warn(w, "pod", p.pod.Namespace+"/"+p.pod.Name)
	}
	a.NetNS, _ = p.NetNS(args.Netns) // a namespace that cannot be seen never counts as alive
	a.NetNS.Path, a.Caller = args.Netns, p.Caller
	if err := p.add(&adding{Plugin: p, conf: conf, wanted: wanted, a: &a}); err != nil {
		return err
	}
	return p.printResult(conf, dns, &a)
}

// adding is one ADD.
type adding struct {
	*Plugin
	conf   *netconf.Config
	wanted []netip.Addr // by range set; not valid where no address is asked for by number
	a      *reservation.Attachment

	tx         *persistence.Tx
	beside     outside.Add
	inUse      []netip.Addr // free in the state, and used by the kernel
	unanswered bool         // the kernel has failed to answer
	cameBack   bool         // an earlier sandbox of the pod had an address
	hadOwner   []netip.Addr // new addresses that another attachment had lately
	asked      []netip.Addr // those for which the segment was asked
	marker     *pendingMarker
	ended      *pendingMarker // of the predecessor for whose end the ADD waits
}

// add fills in the attachment's addresses and stores it. A refused ADD tries again when its
// predecessor ends within ipam.addWait.
func (p *Plugin) add(ad *adding) error {
	defer func() {
		if ad.marker != nil || ad.ended != nil {
			ad.marker.cancel()
			ad.ended.cancel()
		}
	}()
	plan, err := ad.try()
	if errors.Is(err, reservation.ErrPredecessor) {
		err = ad.retry(&plan, err)
	}
	if errors.Is(err, errUnasked) {
		plan, err = ad.askFirst(plan.Addresses)
	}
	if err != nil {
		p.countExhausted(ad.conf, err)
		return err
	}
	if plan.Verdict == reservation.Claim || ad.cameBack {
		p.announce(ad.a)
	}
	ad.forgetOwners()
	return nil
}

// try runs the ADD once: gather, plan, apply.
func (ad *adding) try() (plan reservation.AddDecision, err error) {
	err = ad.store(ad.conf, ad.mark).Update(context.Background(), func(tx *persistence.Tx) error { //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
		plan, ad.tx, ad.inUse, ad.hadOwner, ad.cameBack, ad.slow, ad.a.Since = reservation.AddDecision{}, tx, nil, nil, false, false, ad.Now()
		in, err := ad.gather()
		if err != nil {
			return err
		}
		if plan = reservation.PlanAdd(in); plan.Verdict == reservation.Refuse {
			ad.prepareWait(plan.Wait)
			return ad.markRefused(plan)
		}
		if ad.mustAsk(plan) {
			ad.mark() // so that no DEL comes between
			return errUnasked
		}
		if err := ad.apply(plan); err != nil {
			return err
		}
		return ad.checkStillWanted()
	})
	err = errors.Join(err, plan.Err)
	if ad.beside.Done != nil {
		err = errors.Join(err, ad.beside.Done(*ad.a, err))
	}
	return plan, err
}

// announce makes the node look up the pod again: an address that comes back has another
// link-layer address. A failure is no reason to fail the pod.
func (p *Plugin) announce(a *reservation.Attachment) {
	if err := p.Forget(a.Addresses); err != nil {
		p.Log.Warn("Neighbours of the pod may not reach it for up to a minute", "pod", a.Owner.String(), "error", err)
	}
}

// checkStillWanted fails an ADD whose answer no runtime waits for, at the last moment before the
// commit.
func (ad *adding) checkStillWanted() error {
	switch {
	case ad.Orphaned():
		return errOrphaned
	case ad.marker != nil && ad.marker.cancelled():
		return errEnded
	}
	return nil
}

// gather collects what the plan needs to know: from the state, and from the sources beside
// it where there are any.
func (ad *adding) gather() (in reservation.AddInput, err error) {
	a := *ad.a
	ad.beside = outside.Add{}
	if sources := ad.outside(ad.tx, ad.conf, a.Since); len(sources) > 0 {
		if ad.beside, err = sources.Add(a); err != nil {
			return in, err
		}
	}
	ad.beside.Taken = ad.taken(ad.beside.Taken)
	in = reservation.AddInput{
		Now: a.Since, ID: a.ID, Owner: a.Owner, UID: a.UID, Mode: a.Mode, WantsRetention: a.WantsRetention(), PredecessorWait: ad.conf.PredecessorWait,
		Fits: ad.fits, Existing: ad.beside.Existing, Reserved: ad.beside.Kept,
	}
	existing, found, err := ad.tx.Attachment(a.ID)
	if found {
		in.Existing = &existing
	}
	if in.Existing != nil || err != nil || !a.Owner.Named() {
		return in, err
	}
	if home := ad.conf.Annotations[reservation.HomeAnnotation]; home != ad.conf.Node { // home itself knows all that it has
		in.Home = home
	}
	if in.Earlier, err = ad.predecessors(); err != nil {
		return in, err
	}
	r, found, err := ad.tx.Reservation(a.Owner)
	if found {
		in.Reserved, in.ReservedInUse = &r, ad.reservedInUse(r)
	}
	return in, err
}

// fits says why addresses that the owner had cannot be handed out again; nil when they can.
func (ad *adding) fits(addrs []netip.Addr, guest bool) error {
	if err := ad.conf.Fits(ad.wanted, addrs, guest); err != nil || ad.beside.Denies == nil {
		return err
	}
	return ad.beside.Denies(addrs)
}

func (ad *adding) predecessors() ([]reservation.Predecessor, error) {
	known, err := ad.tx.AttachmentsOf(ad.a.Owner)
	var all []reservation.Predecessor
	for _, e := range known {
		failed, rollbackErr := ad.rollback(ad.tx, ad.conf, e, ad.a.Since)
		err = errors.Join(err, rollbackErr)
		all = append(all, reservation.Predecessor{Attachment: e, Alive: ad.Alive(e), Failed: failed})
	}
	if l := ad.beside.Living; l != nil {
		all = append(all, reservation.Predecessor{Attachment: *l, Alive: true})
	}
	return all, err
}

// apply carries out the plan.
func (ad *adding) apply(plan reservation.AddDecision) error {
	a := ad.a
	if plan.Reason != "" {
		ad.Log.Info("Addresses of the pod", "pod", a.Owner.String(), "container", a.ID.ContainerID, "reason", plan.Reason)
	}
	if err := ad.endPredecessors(plan); err != nil {
		return err
	}
	a.Addresses, a.Guest, a.Claimed, a.Dropped = slices.Clone(plan.Addresses), plan.Guest, plan.Claimed, plan.Dropped
	ad.entry.Outcome, ad.entry.Reason, ad.entry.Addresses = outcomeClaimed, plan.Reason, a.Addresses
	if plan.Verdict == reservation.Allocate {
		if err := ad.rangesKnown(); err != nil {
			return err
		}
		if err := ad.allocate(); err != nil {
			return err
		}
	}
	var err error
	if a.Seq, err = ad.tx.NextSeq(); err != nil {
		return fmt.Errorf("number attachment: %w", err)
	}
	if err := ad.tx.PutAttachment(*a); err != nil {
		return err
	}
	if err := errors.Join(ad.forgetLastHolders(), describe(ad.tx, ad.conf)); err != nil || ad.beside.Stored == nil {
		return err
	}
	return ad.beside.Stored(*a)
}

// endPredecessors ends what the new attachment succeeds to, so that its addresses are free to
// be taken.
func (ad *adding) endPredecessors(plan reservation.AddDecision) error {
	for _, id := range plan.Ended {
		if err := ad.tx.DeleteAttachment(id); err != nil {
			return err
		}
	}
	if plan.DropReserved && plan.Guest != 0 {
		return ad.tx.TakeReservation(ad.a.Owner)
	}
	if plan.DropReserved {
		return ad.tx.DeleteReservation(ad.a.Owner)
	}
	return nil
}
