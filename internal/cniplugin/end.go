package cniplugin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/skel"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Del ends the attachment that it names and no other (rule 3). One that is
// unknown has ended already, which is success.
func (p *Plugin) Del(args *skel.CmdArgs) error {
	conf, err := parseEnd(args.StdinData)
	if err != nil {
		return err
	}
	id := reservation.AttachmentID{Network: conf.network, ContainerID: args.ContainerID, IfName: args.IfName}
	wish, _ := reservation.ParseRetentionRequest(conf.annotations, conf.maxReservation)
	if needless, err := p.stateless(conf, args, wish); needless || err != nil {
		return err
	}
	var ended reservation.Attachment
	var old remnant
	err = p.update(conf, func(tx *persistence.Tx) error {
		a, found, err := tx.Attachment(id)
		if err != nil {
			return err
		}
		if !found {
			pendingOf(conf.dataDir, id).takeAway()
			old, err = p.endUnknown(tx, conf, args, wish)
			return err
		}
		ended = a
		if old, err = conf.remnantBeside(a); err != nil {
			return err
		}
		if !a.AnnotationsSeen { // a runtime that sends the annotations only now, if at all
			a.Retain, a.Mode = wish.Retain, wish.Mode
		}
		now := p.Now()
		plan, err := p.end(tx, a, now, p.rollback(conf, a, now))
		p.line.says(outcomeOfEnd(plan), plan.Reason, a.Addresses)
		return err
	})
	if persistence.LostOrDamaged(err) || unwritable(err) {
		return p.endUnwritten(conf, args, err)
	}
	if err != nil {
		return err
	}
	return errors.Join(conf.unmirror(ended), conf.clear(old))
}

// endUnwritten ends a container where that cannot be written down: its end must not hang on
// a repair, nor on a disk. What is stored is held for its owner, until a repeated DEL, the
// agent or a successor finds the namespace gone. What only a file of host-local's tells is
// freed with that file, or else DEL fails as host-local's does: nobody would look again.
func (p *Plugin) endUnwritten(conf *config, args *skel.CmdArgs, cause error) error {
	p.Log.Error("State cannot be written, ending the container without it", "container", args.ContainerID, "error", cause)
	p.line.says(outcomeUnrepaired, cause.Error(), nil)
	id := reservation.AttachmentID{Network: conf.network, ContainerID: args.ContainerID, IfName: args.IfName}
	old, err := conf.remnantOf(id, endedPod(args).owner(id), nil)
	if err != nil {
		return err
	}
	old.mirrored = nil // the state may well know the container
	return conf.clear(old)
}

// unwritable reports whether a write failed, and would for any other container: for want of
// space or rights, or because the disk or its file system gave up.
func unwritable(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO, unix.EACCES, unix.EPERM}, func(no error) bool { return errors.Is(err, no) })
}

// endUnknown ends what is held for a container that the state does not know by its ID.
func (p *Plugin) endUnknown(tx *persistence.Tx, conf *config, args *skel.CmdArgs, wish reservation.RetentionRequest) (remnant, error) {
	found := p.endFound(tx, reservation.AttachmentID{Network: conf.network, IfName: args.IfName}, args.Netns)
	if found != nil && !errors.Is(found, persistence.ErrUnchanged) {
		return remnant{}, found
	}
	old, err := p.endRemnant(tx, conf, args, wish)
	if errors.Is(err, persistence.ErrUnchanged) {
		err = found
	}
	return old, err
}

// endFound ends what a rebuilt state holds for a namespace, in which it could not tell
// the container.
func (p *Plugin) endFound(tx *persistence.Tx, id reservation.AttachmentID, netns string) error {
	id.ContainerID = reservation.NetNSPlaceholder(reservation.NetNS{Path: netns})
	a, found, err := tx.Attachment(id)
	p.line.says(outcomeUnknown, "", nil)
	if err == nil && !found {
		err = persistence.ErrUnchanged
	}
	if err != nil {
		return err
	}
	p.line.says(outcomeFreed, "found in the namespace while the state was rebuilt", a.Addresses)
	return tx.DeleteAttachment(id)
}

func outcomeOfEnd(plan reservation.EndDecision) string {
	if plan.Reserve != nil {
		return outcomeReserved
	}
	return outcomeFreed
}

// rollback tells a DEL inside a failing ADD from one that ends a pod. libcni hands
// over the earlier result (a plugin further down the chain has one at ADD as well,
// but not with these addresses), or at least keeps it in its cache, once the whole chain
// of plugins has succeeded; the age guards against a runtime that keeps none.
func (p *Plugin) rollback(conf *config, a reservation.Attachment, now reservation.Moment) bool {
	if len(conf.prevResult) > 0 && compare(a, conf.prevResult) == nil {
		return false
	}
	cached := filepath.Join(p.ResultsDir, fmt.Sprintf("%s-%s-%s", a.ID.Network, a.ID.ContainerID, a.ID.IfName))
	if _, err := os.Stat(cached); !errors.Is(err, os.ErrNotExist) {
		return false
	}
	return now.Since(a.Since) < rollbackAge
}

// GC ends every attachment of the network that the runtime does not name as valid,
// as a DEL would. Reservations are never in that list, and never touched. Without
// the list nothing is known, and nothing is done.
func (p *Plugin) GC(args *skel.CmdArgs) error {
	conf, err := parseEnd(args.StdinData)
	if err != nil {
		return err
	}
	valid, known, err := validAttachments(args.StdinData, conf.network)
	if err != nil || !known {
		return err
	}
	if begun, err := p.store(conf).Initialized(); err == nil && !begun {
		return conf.clearInvalid(valid, p.Now())
	}
	var ended []reservation.Attachment
	var stray remnant
	err = p.update(conf, conf.describing(func(tx *persistence.Tx) error {
		all, err := tx.Attachments(conf.network)
		if err != nil {
			return err
		}
		stray = conf.strayMirrors(valid)
		stale := slices.DeleteFunc(all, func(a reservation.Attachment) bool {
			return valid[a.ID] || a.ID.IsNetNSPlaceholder() && p.alive(a) // by its container's ID it may be valid
		})
		if len(stale) == 0 {
			return persistence.ErrUnchanged
		}
		// The newest first, so that an older life of the same owner sees it.
		slices.SortStableFunc(stale, func(a, b reservation.Attachment) int { return cmp.Compare(b.Seq, a.Seq) })
		now, went := p.Now(), map[string][]netip.Addr{}
		for _, a := range stale {
			p.Log.Info("Garbage collected", "container", a.ID.ContainerID, "interface", a.ID.IfName, "pod", a.Owner.String())
			plan, err := p.end(tx, a, now, false)
			if err != nil {
				return err
			}
			went[outcomeOfEnd(plan)] = append(went[outcomeOfEnd(plan)], a.Addresses...)
		}
		ended = stale
		p.line.says(outcomeEnded, fmt.Sprintf("%d containers that the runtime does not know: reserved %v, freed %v", len(stale), went[outcomeReserved], went[outcomeFreed]), nil)
		return nil
	}))
	for _, a := range ended {
		err = errors.Join(err, conf.unmirror(a))
	}
	if err == nil {
		err = conf.clear(stray)
	}
	return errors.Join(err, conf.clearInvalid(valid, p.Now()))
}

// validAttachments reads the list of a GC. A null list says that nothing is valid,
// a missing one that nothing is known.
func validAttachments(stdin []byte, network string) (valid map[reservation.AttachmentID]bool, known bool, err error) {
	var conf map[string]json.RawMessage
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return nil, false, fmt.Errorf("decode network configuration: %w: %w", err, errConfig)
	}
	raw, known := conf["cni.dev/valid-attachments"]
	if !known {
		return nil, false, nil
	}
	var list []struct {
		ContainerID string `json:"containerID"`
		IfName      string `json:"ifname"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, false, fmt.Errorf("cni.dev/valid-attachments: %w: %w", err, errConfig)
	}
	valid = map[reservation.AttachmentID]bool{}
	for _, a := range list {
		valid[reservation.AttachmentID{Network: network, ContainerID: a.ContainerID, IfName: a.IfName}] = true
	}
	return valid, true, nil
}
