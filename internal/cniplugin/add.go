package cniplugin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/internal/skel"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Add hands out one address of each range set, in one transaction: those that the
// pod had before, or else the next free ones.
func (p *Plugin) Add(args *skel.CmdArgs) error {
	conf, err := parseAdd(args.StdinData)
	if err != nil {
		return err
	}
	pod, err := parsePod(args.Args)
	if err != nil {
		return err
	}
	if pod.IP.IsValid() {
		conf.requested = append([]netip.Addr{pod.IP.Addr}, conf.requested...)
	}
	if conf.wanted, err = assign(conf.sets, conf.requested); err != nil {
		return err
	}
	wish, warnings := reservation.ParseRetentionRequest(conf.annotations, conf.maxReservation)
	for _, w := range warnings {
		p.Log.Warn(w, "pod", string(pod.K8S_POD_NAMESPACE)+"/"+string(pod.K8S_POD_NAME))
	}
	a := p.newAttachment(args, conf, pod, wish)
	if err := p.add(args, conf, &a); err != nil {
		return err
	}
	return p.printResult(conf, a.Addresses)
}

func (p *Plugin) newAttachment(args *skel.CmdArgs, conf *config, pod *podArgs, wish reservation.RetentionRequest) reservation.Attachment {
	id := reservation.AttachmentID{Network: conf.network, ContainerID: args.ContainerID, IfName: args.IfName}
	netns, _ := p.NetNS(args.Netns) // one that cannot be seen never counts as alive
	netns.Path = args.Netns
	return reservation.Attachment{
		ID: id, Owner: pod.owner(id), UID: string(pod.K8S_POD_UID), NetNS: netns,
		Retain: wish.Retain, Mode: wish.Mode, AnnotationsSeen: conf.annotations != nil,
	}
}

// add fills in the attachment's addresses and stores it.
func (p *Plugin) add(args *skel.CmdArgs, conf *config, a *reservation.Attachment) error {
	old, err := p.inherit(conf, a.Owner)
	if err != nil {
		return err
	}
	var refused error
	returned := false
	word := pendingOf(conf.dataDir, a.ID)
	defer word.done()
	err = p.storeBehind(conf, word.leave).Update(context.Background(), func(tx *persistence.Tx) error { //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
		a.Since = p.Now()
		if err := p.search(tx, conf.network); err != nil {
			return err
		}
		plan, err := p.planAdd(tx, conf, *a, old)
		if err != nil {
			return err
		}
		if plan.Verdict == reservation.Refuse {
			refused = plan.Err
			return markRefused(tx, plan, a, old)
		}
		if plan.Reason != "" {
			p.Log.Info("Addresses of the pod", "pod", a.Owner.String(), "container", args.ContainerID, "reason", plan.Reason)
		}
		returned = plan.Verdict == reservation.Claim
		if err := p.carryOut(tx, conf, a, plan); err != nil {
			return err
		}
		return p.awaited(word)
	})
	if err := errors.Join(err, refused); err != nil {
		conf.countExhausted(err)
		return errors.Join(err, conf.unmirror(*a))
	}
	if returned {
		p.announce(a)
	}
	if err := conf.came(old.heir); err != nil { // the pod has the address, and the next ADD or an exhausted range clears the file away
		p.Log.Warn("What the ancestor kept for the pod could not be removed", "pod", a.Owner.String(), "error", err)
	}
	return nil
}

// announce makes the node look for the pod anew: an address that comes back has another
// link-layer address. It is a help, and no reason to fail the pod.
func (p *Plugin) announce(a *reservation.Attachment) {
	if err := p.Forget(a.Addresses); err != nil {
		p.Log.Warn("Neighbours of the pod may not reach it for up to a minute", "pod", a.Owner.String(), "error", err)
	}
}

// carryOut does what the planner decided.
func (p *Plugin) carryOut(tx *persistence.Tx, conf *config, a *reservation.Attachment, plan reservation.AddDecision) error {
	if err := settle(tx, a, plan); err != nil {
		return err
	}
	a.Addresses, a.Claimed, a.Dropped = plan.Addresses, plan.Claimed, plan.Dropped
	p.line.says(outcomeClaimed, plan.Reason, a.Addresses)
	if plan.Verdict == reservation.Allocate {
		var err error
		if a.Addresses, err = p.allocate(tx, conf, a.Since); err != nil {
			return err
		}
	}
	if err := put(tx, conf, a); err != nil {
		return err
	}
	return p.mirrorAdd(tx, conf, a)
}

// awaited fails an ADD whose answer nobody waits for, at the last moment before it happens.
func (p *Plugin) awaited(word *pending) error {
	switch {
	case p.Orphaned():
		return errOrphaned
	case word.takenAway():
		return errEnded
	}
	return nil
}

// planAdd gathers what is known of the owner and asks the planner.
func (p *Plugin) planAdd(tx *persistence.Tx, conf *config, a reservation.Attachment, old heritage) (reservation.AddDecision, error) {
	in := reservation.AddInput{
		Now: a.Since, ID: a.ID, Owner: a.Owner, UID: a.UID, Mode: a.Mode, WantsRetention: a.WantsRetention(), PredecessorWait: conf.predecessorWait,
		Fits: func(addrs []netip.Addr) error {
			if err := conf.fits(addrs); err != nil {
				return err
			}
			if err := old.heldByOthers(tx, a.Owner); err != nil && slices.Contains(addrs, old.heir.Addr) {
				return err
			}
			return conf.heldElsewhere(addrs, old.heir)
		},
		Reserved: conf.inheritance(a.Owner, old.heir),
	}
	existing, found, err := p.existing(tx, conf, a, old.heir)
	if err != nil {
		return reservation.AddDecision{}, err
	}
	if found {
		in.Existing = &existing
		return reservation.PlanAdd(in), nil
	}
	if !a.Owner.Named() {
		return reservation.PlanAdd(in), nil
	}
	if in.Earlier, err = p.earlier(tx, conf, a, old); err != nil {
		return reservation.AddDecision{}, err
	}
	r, found, err := tx.Reservation(a.Owner)
	if found {
		in.Reserved = &r
	}
	return reservation.PlanAdd(in), err
}

// earlier returns the attachments of an owner, that of the ancestor's time among them.
func (p *Plugin) earlier(tx *persistence.Tx, conf *config, a reservation.Attachment, old heritage) ([]reservation.Predecessor, error) {
	known, err := tx.AttachmentsOf(a.Owner)
	if err != nil {
		return nil, err
	}
	var all []reservation.Predecessor
	for _, e := range known {
		all = append(all, reservation.Predecessor{Attachment: e, Alive: p.alive(e), Failed: p.rollback(conf, e, a.Since)})
	}
	living, err := old.predecessor(tx)
	if living != nil {
		all = append(all, reservation.Predecessor{Attachment: *living, Alive: true})
	}
	return all, err
}

// markRefused remembers on the predecessor when a successor was first turned away; one of
// the ancestor's time is known from then on. It is the one thing that an ADD stores
// although it fails.
func markRefused(tx *persistence.Tx, plan reservation.AddDecision, a *reservation.Attachment, old heritage) error {
	if plan.RefusedBy == nil {
		return persistence.ErrUnchanged
	}
	predecessor, found, err := tx.Attachment(*plan.RefusedBy)
	if err == nil && !found {
		predecessor = *old.living
		predecessor.Seq, err = tx.NextSeq()
	}
	if err != nil {
		return err
	}
	predecessor.RefusedSince, predecessor.RefusedUID = &a.Since, a.UID
	return tx.PutAttachment(predecessor)
}

// settle ends what the new attachment succeeds to, so that its addresses are free
// to be taken.
func settle(tx *persistence.Tx, a *reservation.Attachment, plan reservation.AddDecision) error {
	for _, id := range plan.Ended {
		if err := tx.DeleteAttachment(id); err != nil {
			return err
		}
	}
	if plan.DropReserved {
		return tx.DeleteReservation(a.Owner)
	}
	return nil
}

// put stores the attachment, and what others than an ADD need to know of the network.
func put(tx *persistence.Tx, conf *config, a *reservation.Attachment) error {
	var err error
	if a.Seq, err = tx.NextSeq(); err != nil {
		return fmt.Errorf("number attachment: %w", err)
	}
	if err := tx.PutAttachment(*a); err != nil {
		return err
	}
	return conf.describe(tx)
}
