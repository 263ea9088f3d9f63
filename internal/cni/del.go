package cni

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/internal/cni/skel"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Del ends the attachment that it names and no other (rule 3). An unknown attachment has
// ended already, which is success.
func (p *Plugin) Del(args *skel.CmdArgs) error {
	conf, err := args.Conf.ParseEnd()
	if err != nil {
		return err
	}
	named, _ := conf.Attachment(p.pod, args.ContainerID, args.IfName) // ADD has warned
	named.NetNS.Path = args.Netns
	store := p.store(conf, nil)
	if begun, err := store.Initialized(); err == nil && !begun { // Update reports what cannot be looked at
		if done, err := p.endStateless(conf, named); done || err != nil {
			return err
		}
	}
	var ends []outside.End
	err = store.Update(context.Background(), func(tx *persistence.Tx) (err error) { //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
		ends, err = p.endNamed(tx, conf, named)
		return err
	})
	if persistence.LostOrDamaged(err) || unwritable(err) || errors.Is(err, persistence.ErrNewer) {
		return p.endUnwritten(conf, named, err)
	}
	if err != nil {
		return err
	}
	endMarkerOf(conf, named.ID).cancel() // mostly there is none
	var errs []error
	for _, e := range ends {
		if e.After != nil {
			errs = append(errs, e.After())
		}
	}
	return errors.Join(errs...)
}

// endNamed ends the attachment in the state, or else what the sources beside the state know
// of the container.
func (p *Plugin) endNamed(tx *persistence.Tx, conf *netconf.Config, named reservation.Attachment) ([]outside.End, error) {
	a, found, err := tx.Attachment(named.ID)
	if err != nil {
		return nil, err
	}
	now := p.Now()
	if !found {
		pendingMarkerOf(conf, named.ID).cancel()
		p.entry.Outcome = outcomeUnknown
		ends, changed, err := p.endOutside(tx, conf, named, false, now)
		if err == nil && !changed {
			err = persistence.ErrUnchanged
		}
		return ends, err
	}
	ends, _, err := p.endOutside(tx, conf, a, true, now)
	if err != nil {
		return nil, err
	}
	if !a.AnnotationsSeen { // a runtime that sends the annotations only now, if at all
		a.Retain, a.Mode = named.Retain, named.Mode
	}
	_, err = p.endOne(tx, conf, outside.End{Attachment: &a, Stored: true}, now)
	return ends, err
}

// endOutside ends what the sources know of a container, one source after the other: the
// second may need an address that the first frees. It reports whether the state changed.
func (p *Plugin) endOutside(tx *persistence.Tx, conf *netconf.Config, a reservation.Attachment, known bool, now reservation.Moment) (ends []outside.End, changed bool, err error) {
	for _, source := range p.outside(tx, conf, now) {
		e, err := source.End(a, known)
		if err != nil {
			return nil, false, err
		}
		wrote, err := p.endOne(tx, conf, e, now)
		if err != nil {
			return nil, false, err
		}
		ends, changed = append(ends, e), changed || wrote
	}
	return ends, changed, nil
}

// endOne ends one attachment of a DEL, and reports whether the state changed.
func (p *Plugin) endOne(tx *persistence.Tx, conf *netconf.Config, e outside.End, now reservation.Moment) (bool, error) {
	if e.Attachment == nil {
		return false, nil
	}
	rollback, err := p.rollback(tx, conf, *e.Attachment, now)
	if err != nil {
		return false, err
	}
	plan, err := p.end(tx, *e.Attachment, now, rollback)
	if err != nil {
		return false, err
	}
	if e.Reason != "" {
		plan.Reason = e.Reason
	}
	p.entry.setOutcome(outcomeOfEnd(plan), plan.Reason, e.Attachment.Addresses)
	return e.Stored || plan.Reserve != nil, nil
}

// endStateless ends a container on a node that has no state, and reports whether that was
// possible. A state is made only where a source needs one.
func (p *Plugin) endStateless(conf *netconf.Config, named reservation.Attachment) (done bool, err error) {
	alone, err := p.outside(nil, conf, p.Now()).EndAlone(named, outside.NoState)
	if err != nil || alone.NeedState {
		return false, err
	}
	pendingMarkerOf(conf, named.ID).cancel()
	p.entry.setOutcome(outcomeUnknown, "", nil)
	return true, alone.After()
}

// endUnwritten ends a container where that cannot be stored: its end must not wait for a
// repair, a disk or another version of limpet-ipam. A stored attachment keeps its addresses until a repeated DEL, the agent or
// a successor finds the namespace gone. Addresses known only beside the state are freed there.
// If that fails, DEL fails: nothing retries later.
func (p *Plugin) endUnwritten(conf *netconf.Config, named reservation.Attachment, cause error) error {
	p.Log.Error("State cannot be written, ending the container without it", "container", named.ID.ContainerID, "error", cause)
	p.entry.setOutcome(outcomeUnrepaired, cause.Error(), nil)
	alone, err := p.outside(nil, conf, p.Now()).EndAlone(named, outside.Unwritable)
	if err != nil {
		return err
	}
	return alone.After()
}

// obstacles are errors that any other container would meet too: no space or no rights, a disk or its file system that
// gave up, and a directory or a link in the place of a file.
var obstacles = []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO, unix.EACCES, unix.EPERM, unix.EISDIR, unix.ENOTDIR, unix.ENOENT, unix.ELOOP}

// unwritable reports whether the state could not be written because of an obstacle.
func unwritable(err error) bool {
	return slices.ContainsFunc(obstacles, func(no error) bool { return errors.Is(err, no) })
}
