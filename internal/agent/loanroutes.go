package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// addLoans adds what the routes to guests depend on. The caller holds l.kernel until the routes are made.
func (l *lending) addLoans(ctx context.Context, in *plan.OwnNetworkInput) error {
	loans, told := l.cluster.allLoans()
	in.Loans, in.LoansUntold = loans, !told
	if len(loans) == 0 && !slices.ContainsFunc(in.Have, func(r plan.Route) bool { return r.To.IsSingleIP() }) {
		return nil
	}
	in.Held, in.Lent, in.Guests = map[netip.Addr]bool{}, map[netip.Addr]bool{}, map[netip.Addr]bool{}
	note := func(to map[netip.Addr]bool, addrs []netip.Addr, guest int64) {
		for _, a := range addrs {
			to[a] = true
			if guest != 0 {
				in.Guests[a] = true
			}
		}
	}
	err := l.store.View(ctx, func(tx *persistence.Tx) error {
		attachments, err := tx.Attachments(in.Network)
		if err != nil {
			return err
		}
		reservations, err := tx.Reservations(in.Network)
		for _, r := range reservations {
			to := in.Held
			if r.Lent != 0 {
				to = in.Lent
			}
			note(to, r.Addresses, r.Guest)
		}
		for _, at := range attachments {
			note(in.Held, at.Addresses, at.Guest)
		}
		return err
	})
	if err != nil && !errors.Is(err, persistence.ErrNoState) {
		in.Loans, in.LoansUntold = nil, true // routes to guests stay as they are
		return fmt.Errorf("routes to guests: %w", err)
	}
	return nil
}

// removeRoutes removes the agent's routes to single addresses.
func removeRoutes(h *netlink.Handle, addrs []netip.Addr) error {
	for _, a := range addrs {
		to := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
		if err := h.RouteDel(&netlink.Route{Dst: to, Protocol: routeProtocol}); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route %s, which a pod of this node may get: %w", a, err)
		}
	}
	return nil
}
