package coexist

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/hostlocal"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// legacyFiles are the files of a container that the state does not know.
type legacyFiles struct {
	own      []hostlocal.Entry // host-local's own
	record   *hostlocal.Record // the fork's
	mirrored []hostlocal.Entry // of a container that Limpet's state knew
}

// addresses returns those that host-local's own files hold.
func (l legacyFiles) addresses() []netip.Addr {
	addrs := make([]netip.Addr, len(l.own))
	for i, f := range l.own {
		addrs[i] = f.Addr
	}
	return addrs
}

// find returns the files of a container, in the order of the range sets. The address file of
// a fork's record may name an earlier container of the pod. Files of addresses to skip are
// not read.
func (f files) find(id reservation.AttachmentID, o reservation.Owner, skip func(netip.Addr) bool) (legacyFiles, error) {
	l, err := f.findAll(id, o, skip)
	sorted := make([]*hostlocal.Entry, 0, len(l.own)) // each sort of another type than pointers takes 10 kB of the plugin
	for _, e := range l.own {
		sorted = append(sorted, &e)
	}
	slices.SortFunc(sorted, func(x, y *hostlocal.Entry) int {
		return cmp.Or(cmp.Compare(f.conf.SetOf(x.Addr), f.conf.SetOf(y.Addr)), x.Addr.Compare(y.Addr))
	})
	for i, e := range sorted {
		l.own[i] = *e
	}
	return l, err
}

func (f files) findAll(id reservation.AttachmentID, o reservation.Owner, skip func(netip.Addr) bool) (legacyFiles, error) {
	var l legacyFiles
	var err error
	if l.own, err = f.hostLocal.Of(id.ContainerID, id.IfName, skip); err != nil {
		if l.own, err = f.namedByResult(id, l.own, err); err != nil {
			return l, err
		}
	}
	for _, e := range l.own {
		if e.Holder.Mirrored {
			l.mirrored = append(l.mirrored, e)
		}
	}
	l.own = slices.DeleteFunc(l.own, func(e hostlocal.Entry) bool { return e.Holder.Mirrored })
	if !o.Named() {
		return l, nil
	}
	record, found, err := f.fork.Of(o.Namespace, o.Pod)
	if err != nil || !found || record.ContainerID != id.ContainerID || record.IfName != id.IfName {
		return l, err
	}
	h, there, err := f.hostLocal.Holder(record.Addr)
	if err != nil || !there || h.Mirrored {
		return l, err
	}
	l.record = &record
	if !slices.ContainsFunc(l.own, func(e hostlocal.Entry) bool { return e.Addr == record.Addr }) {
		l.own = append(l.own, hostlocal.Entry{Addr: record.Addr, Holder: h})
	}
	return l, nil
}

// namedByResult goes on where not every file could be read. An earlier result names the
// addresses of the container, and the files of other addresses do not matter.
func (f files) namedByResult(id reservation.AttachmentID, own []hostlocal.Entry, unread error) ([]hostlocal.Entry, error) {
	named := netconf.ResultAddresses(f.conf.PrevResult)
	if len(named) == 0 {
		return own, unread
	}
	for _, a := range named {
		h, found, err := f.hostLocal.Holder(a)
		if err != nil {
			return own, err
		}
		listed := slices.ContainsFunc(own, func(e hostlocal.Entry) bool { return e.Addr == a })
		if found && !listed && h.Is(id.ContainerID, id.IfName) {
			own = append(own, hostlocal.Entry{Addr: a, Holder: h})
		}
	}
	return own, nil
}

// findBeside returns the files of an attachment that the state knows as well. The state took
// it from libcni's cache, since the address file names an earlier container. Only files of
// the attachment's addresses are read.
func (f files) findBeside(a reservation.Attachment) (legacyFiles, error) {
	var l legacyFiles
	if a.Owner.Named() {
		record, found, err := f.fork.Of(a.Owner.Namespace, a.Owner.Pod)
		if err != nil {
			return l, err
		}
		if found && record.ContainerID == a.ID.ContainerID && record.IfName == a.ID.IfName && slices.Contains(a.Addresses, record.Addr) {
			l.record = &record
		}
	}
	for _, addr := range a.Addresses {
		h, found, err := f.hostLocal.Holder(addr)
		if err != nil {
			return l, err
		}
		if found && !h.Mirrored && (h.Is(a.ID.ContainerID, a.ID.IfName) || l.record != nil && l.record.Addr == addr) {
			l.own = append(l.own, hostlocal.Entry{Addr: addr, Holder: h})
		}
	}
	return l, nil
}

// remove removes files of a container: mirrored ones at once, host-local's own under its
// lock. The state does not know the container of mirrored files: a kill before the commit
// left them, or a rebuild.
func (f files) remove(l legacyFiles) (err error) {
	for _, e := range l.mirrored {
		if err := f.hostLocal.Remove(e.Addr, e.Holder); err != nil {
			return err
		}
	}
	if len(l.own) == 0 {
		return nil
	}
	lock, err := f.hostLocal.Lock(context.Background(), cmp.Or(f.conf.LockWait, persistence.DefaultLockWait)) //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	var errs []error
	for _, e := range l.own {
		errs = append(errs, f.hostLocal.Remove(e.Addr, e.Holder))
	}
	if err := errors.Join(errs...); err != nil || l.record == nil {
		return err
	}
	return f.fork.Remove(*l.record)
}
