package cniplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/limpet-io/limpet/internal/skel"
	"github.com/limpet-io/limpet/pkg/hostlocal"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// abandonedAge is how old an address file must be that names nobody: its writer was
// killed or the power failed, and no DEL will ever match it.
const abandonedAge = 10 * time.Minute

// freeView tells which addresses neither the state nor host-local holds. Where
// host-local never was, that costs one look at a file that is not there.
type freeView struct {
	persistence.FreeView
	dir hostlocal.Dir
}

// FirstFree returns the lowest free address within [from, to].
func (v freeView) FirstFree(from, to netip.Addr) (netip.Addr, bool, error) {
	for {
		a, found, err := v.FreeView.FirstFree(from, to)
		if err != nil || !found {
			return a, false, err
		}
		taken, err := takenIn(v.dir, a)
		if err != nil || !taken {
			return a, err == nil, err
		}
		if a == to {
			return a, false, nil
		}
		from = a.Next()
	}
}

func takenIn(dir hostlocal.Dir, a netip.Addr) (bool, error) {
	h, found, err := dir.Holder(a)
	return found && !h.Mirrored, err
}

// heldElsewhere says who of host-local's time holds one of the addresses; nil when nobody
// does. What the ancestor kept for the owner itself is its own.
func (c *config) heldElsewhere(addrs []netip.Addr, heir *hostlocal.Reserved) error {
	for _, a := range addrs {
		if heir != nil && heir.Addr == a {
			continue
		}
		h, found, err := c.hostLocal.Holder(a)
		if err != nil {
			return err
		}
		if found && !h.Mirrored {
			return fmt.Errorf("host-local holds %s for container %s", a, h.ContainerID)
		}
	}
	return nil
}

// remnant is what is on disk of a container of host-local's time.
type remnant struct {
	files    []hostlocal.Entry
	record   *hostlocal.Reserved // the ancestor's
	mirrored []hostlocal.Entry   // files of a container that Limpet's state knew
}

// addresses returns those that the files hold.
func (r remnant) addresses() []netip.Addr {
	addrs := make([]netip.Addr, len(r.files))
	for i, f := range r.files {
		addrs[i] = f.Addr
	}
	return addrs
}

// remnantOf finds the files of a container that the state does not know, in the order of
// the range sets. The address file of the ancestor's record may name an earlier container
// of the pod. Files of addresses to skip are not looked into.
func (c *config) remnantOf(id reservation.AttachmentID, o reservation.Owner, skip func(netip.Addr) bool) (remnant, error) {
	r, err := c.filesOf(id, o, skip)
	slices.SortStableFunc(r.files, func(x, y hostlocal.Entry) int {
		return cmp.Or(cmp.Compare(c.setOf(x.Addr), c.setOf(y.Addr)), x.Addr.Compare(y.Addr))
	})
	return r, err
}

func (c *config) filesOf(id reservation.AttachmentID, o reservation.Owner, skip func(netip.Addr) bool) (remnant, error) {
	var r remnant
	var err error
	if r.files, err = c.hostLocal.Of(id.ContainerID, id.IfName, skip); err != nil {
		if r.files, err = c.filesNamed(id, r.files, err); err != nil {
			return r, err
		}
	}
	for _, e := range r.files {
		if e.Holder.Mirrored {
			r.mirrored = append(r.mirrored, e)
		}
	}
	r.files = slices.DeleteFunc(r.files, func(e hostlocal.Entry) bool { return e.Holder.Mirrored })
	if !o.Named() {
		return r, nil
	}
	record, found, err := c.ancestor.Of(o.Namespace, o.Pod)
	if err != nil || !found || record.ContainerID != id.ContainerID || record.IfName != id.IfName {
		return r, err
	}
	h, there, err := c.hostLocal.Holder(record.Addr)
	if err != nil || !there || h.Mirrored {
		return r, err
	}
	r.record = &record
	if !slices.ContainsFunc(r.files, func(e hostlocal.Entry) bool { return e.Addr == record.Addr }) {
		r.files = append(r.files, hostlocal.Entry{Addr: record.Addr, Holder: h})
	}
	return r, nil
}

// filesNamed goes on where not every file could be read: who knows the addresses of the
// container from its result needs no other files than theirs.
func (c *config) filesNamed(id reservation.AttachmentID, files []hostlocal.Entry, unread error) ([]hostlocal.Entry, error) {
	named := resultAddresses(c.prevResult)
	if len(named) == 0 {
		return files, unread
	}
	for _, a := range named {
		h, found, err := c.hostLocal.Holder(a)
		if err != nil {
			return files, err
		}
		listed := slices.ContainsFunc(files, func(e hostlocal.Entry) bool { return e.Addr == a })
		if found && !listed && h.Is(id.ContainerID, id.IfName) {
			files = append(files, hostlocal.Entry{Addr: a, Holder: h})
		}
	}
	return files, nil
}

// endRemnant reserves the addresses of a container of host-local's time, if its pod asks
// for that. They are freed by clear, once this is on disk.
func (p *Plugin) endRemnant(tx *persistence.Tx, conf *config, args *skel.CmdArgs, wish reservation.RetentionRequest) (remnant, error) {
	id := reservation.AttachmentID{Network: conf.network, ContainerID: args.ContainerID, IfName: args.IfName}
	pod := endedPod(args)
	owner := pod.owner(id)
	r, err := conf.remnantOf(id, owner, nil)
	if err == nil && len(r.files) == 0 {
		err = persistence.ErrUnchanged
	}
	if err != nil {
		return r, err
	}
	a := reservation.Attachment{ID: id, Owner: owner, UID: string(pod.K8S_POD_UID), Addresses: r.addresses(), Retain: wish.Retain, Mode: wish.Mode}
	if r.record != nil && conf.annotations == nil {
		a.Retain = min(r.record.For, conf.maxReservation)
	}
	for _, addr := range a.Addresses {
		held, err := tx.Held(conf.network, addr)
		if err != nil {
			return r, err
		}
		if held { // by one of ours as well, when host-local went on unmirrored
			a.Retain = 0
		}
	}
	if a.Seq, err = p.number(tx, owner, r); err != nil {
		return r, err
	}
	now := p.Now()
	plan, err := p.end(tx, a, now, p.rollback(conf, a, now))
	p.line.says(outcomeOfEnd(plan), plan.Reason, a.Addresses)
	if err == nil && plan.Reserve == nil {
		err = persistence.ErrUnchanged
	}
	return r, err
}

// setOf returns the number of the range set that has an address.
func (c *config) setOf(a netip.Addr) int {
	for n, s := range c.sets {
		if _, in := s.Contains(a); in {
			return n
		}
	}
	return len(c.sets)
}

// clear removes files of host-local's time under its lock, and before it mirrored ones of a
// container that the state does not know: a kill before the commit left them, or a rebuild.
func (c *config) clear(r remnant) (err error) {
	for _, f := range r.mirrored {
		if err := c.hostLocal.Remove(f.Addr, f.Holder); err != nil {
			return err
		}
	}
	if len(r.files) == 0 {
		return nil
	}
	lock, err := c.hostLocal.Lock(context.Background(), c.lockWait) //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	var errs []error
	for _, f := range r.files {
		errs = append(errs, c.hostLocal.Remove(f.Addr, f.Holder))
	}
	if err := errors.Join(errs...); err != nil || r.record == nil {
		return err
	}
	return c.ancestor.Remove(*r.record)
}

// clearInvalid removes the files of containers that are not valid any more, but for those
// that the ancestor keeps for a pod: its record may name a later container than the file.
func (c *config) clearInvalid(valid map[reservation.AttachmentID]bool, now reservation.Moment) error {
	all, err := c.hostLocal.Entries()
	if len(all) == 0 {
		return err
	}
	records, recordErr := c.ancestor.All()
	if recordErr != nil {
		return errors.Join(err, recordErr)
	}
	kept := map[netip.Addr]bool{}
	for _, r := range records {
		runs := valid[reservation.AttachmentID{Network: c.network, ContainerID: r.ContainerID, IfName: r.IfName}]
		waits := !r.Released.IsZero() && !c.inheritance(reservation.Owner{}, &r).Deadline.Passed(now)
		kept[r.Addr] = kept[r.Addr] || runs || waits
	}
	return errors.Join(err, c.clear(remnant{files: slices.DeleteFunc(all, func(e hostlocal.Entry) bool {
		for id := range valid {
			if e.Holder.Is(id.ContainerID, id.IfName) {
				return true
			}
		}
		return kept[e.Addr] || e.Holder.Mirrored || e.Holder.ContainerID == ""
	})}))
}

// sweepHostLocal frees what host-local and the ancestor never would: files that name
// nobody, reservations that have lapsed, and mirrored files that a power loss brought back.
func (p *Plugin) sweepHostLocal(tx *persistence.Tx, c *config, now reservation.Moment) error {
	all, err := c.hostLocal.Entries()
	if err != nil || len(all) == 0 {
		return err
	}
	stale := slices.DeleteFunc(slices.Clone(all), func(e hostlocal.Entry) bool {
		held, heldErr := tx.Held(c.network, e.Addr)
		err = errors.Join(err, heldErr)
		abandoned := e.Holder.ContainerID == "" && now.Wall.Sub(e.Changed) > abandonedAge
		return held || (!e.Holder.Mirrored && !abandoned)
	})
	if err := errors.Join(err, c.clear(remnant{files: stale})); err != nil {
		return err
	}
	records, err := c.ancestor.All()
	if err != nil {
		return err
	}
	for _, r := range records {
		i := slices.IndexFunc(all, func(e hostlocal.Entry) bool { return e.Addr == r.Addr && !e.Holder.Mirrored })
		if i < 0 || r.Released.IsZero() || !c.inheritance(reservation.Owner{}, &r).Deadline.Passed(now) || p.livingOf(c, r) != nil {
			continue
		}
		if err := c.clear(remnant{files: all[i : i+1], record: &r}); err != nil {
			return err
		}
	}
	return nil
}
