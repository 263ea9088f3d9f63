package coexist

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/internal/hostlocal"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// abandonedAge is the age at which an address file without a container is removed. Its
// writer was killed or the power failed, and no DEL will ever match it.
const abandonedAge = 10 * time.Minute

// removeStale removes files that host-local and its fork never would: files without a
// container, lapsed reservations, and mirrored files that a power loss brought back.
func (s *source) removeStale() error {
	all, err := s.hostLocal.Entries()
	if err != nil || len(all) == 0 {
		return err
	}
	stale := slices.DeleteFunc(slices.Clone(all), func(e hostlocal.Entry) bool {
		held, heldErr := s.verb.Tx.Held(s.conf.Network, e.Addr)
		err = errors.Join(err, heldErr)
		abandoned := e.Holder.ContainerID == "" && s.verb.Now.Wall.Sub(e.Changed) > abandonedAge
		return held || (!e.Holder.Mirrored && !abandoned)
	})
	if err := errors.Join(err, s.remove(legacyFiles{own: stale})); err != nil {
		return err
	}
	return s.removeLapsed(all)
}

// removeLapsed removes the fork's lapsed reservations, unless the container still lives.
func (s *source) removeLapsed(all []hostlocal.Entry) error {
	records, err := s.fork.All()
	if err != nil {
		return err
	}
	for _, r := range records {
		i := slices.IndexFunc(all, func(e hostlocal.Entry) bool { return e.Addr == r.Addr && !e.Holder.Mirrored })
		if i < 0 || !s.lapsed(r) || s.livingOf(r) != nil {
			continue
		}
		if err := s.remove(legacyFiles{own: all[i : i+1], record: &r}); err != nil {
			return err
		}
	}
	return nil
}

// Collect finds the mirrored files of containers that are not valid. It needs the lock of the
// state: files of an ADD under way look the same.
func (s *source) Collect(valid map[reservation.AttachmentID]bool) (outside.Collected, error) {
	var unreferenced legacyFiles
	if s.verb.Tx != nil {
		unreferenced = s.unreferencedMirrors(valid)
	}
	return func(ended []reservation.Attachment, failed error) error {
		var errs []error
		for _, a := range ended {
			errs = append(errs, s.removeMirrored(a))
		}
		if err := errors.Join(append(errs, failed)...); err == nil {
			errs = append(errs, s.remove(unreferenced))
		}
		return errors.Join(append(errs, s.removeInvalid(valid))...)
	}, nil
}

// inside returns the addresses in the namespaces of the node: a list that lacks a running container must not give its
// address to another. With an error any address may be in one of them.
func (s *source) inside() (map[netip.Addr]bool, error) {
	kept := map[netip.Addr]bool{}
	if s.node.Inside == nil {
		return kept, nil
	}
	addrs, err := s.node.Inside()
	for _, addr := range addrs {
		kept[addr] = true
	}
	return kept, err
}

func (s *source) unreferencedMirrors(valid map[reservation.AttachmentID]bool) legacyFiles {
	all, _ := s.hostLocal.Entries() // those that can be read; removeInvalid reports the others
	kept, unseen := s.inside()
	return legacyFiles{mirrored: slices.DeleteFunc(all, func(e hostlocal.Entry) bool {
		id := reservation.AttachmentID{Network: s.conf.Network, ContainerID: e.Holder.ContainerID, IfName: e.Holder.IfName}
		return unseen != nil || !e.Holder.Mirrored || valid[id] || kept[e.Addr]
	})}
}

// removeInvalid removes host-local's own files of containers that are not valid any more.
// Addresses that the fork keeps for a pod stay: its record may name a later container than
// the file.
func (s *source) removeInvalid(valid map[reservation.AttachmentID]bool) error {
	all, err := s.hostLocal.Entries()
	if len(all) == 0 {
		return err
	}
	records, recordErr := s.fork.All()
	if recordErr != nil {
		return errors.Join(err, recordErr)
	}
	kept, unseen := s.inside()
	if unseen != nil {
		return errors.Join(err, fmt.Errorf("keep the files of host-local: %w", unseen))
	}
	for _, r := range records {
		runs := valid[reservation.AttachmentID{Network: s.conf.Network, ContainerID: r.ContainerID, IfName: r.IfName}]
		waits := !r.Released.IsZero() && !s.lapsed(r)
		kept[r.Addr] = kept[r.Addr] || runs || waits
	}
	return errors.Join(err, s.remove(legacyFiles{own: slices.DeleteFunc(all, func(e hostlocal.Entry) bool {
		for id := range valid {
			if e.Holder.Is(id.ContainerID, id.IfName) {
				return true
			}
		}
		return kept[e.Addr] || e.Holder.Mirrored || e.Holder.ContainerID == ""
	})}))
}
