package cniplugin

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/hostlocal"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// existing returns what the container of a new attachment has on its interface already: an
// ADD of its own, one of which a rebuilt state knows the namespace only, or one of
// host-local's time. What the ancestor keeps for the pod is no such thing.
func (p *Plugin) existing(tx *persistence.Tx, conf *config, a reservation.Attachment, heir *hostlocal.Reserved) (has reservation.Attachment, found bool, err error) {
	if has, found, err = tx.Attachment(a.ID); found || err != nil {
		return has, found, err
	}
	nameless := a.ID
	nameless.ContainerID = reservation.NetNSPlaceholder(a.NetNS)
	if has, found, err = tx.Attachment(nameless); found && p.alive(has) || err != nil {
		return has, found, err
	}
	var heldErr error
	old, err := conf.remnantOf(a.ID, a.Owner, func(addr netip.Addr) bool {
		held, err := tx.Held(conf.network, addr)
		heldErr = errors.Join(heldErr, err)
		return held // by one that its mirrored file would name
	})
	old.files = slices.DeleteFunc(old.files, func(e hostlocal.Entry) bool { return heir != nil && e.Addr == heir.Addr })
	return reservation.Attachment{ID: a.ID, Addresses: old.addresses()}, len(old.files) > 0, errors.Join(err, heldErr)
}
