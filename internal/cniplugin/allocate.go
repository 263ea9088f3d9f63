package cniplugin

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// allocate takes the next free address of each range set.
func (p *Plugin) allocate(tx *persistence.Tx, conf *config, now reservation.Moment) ([]netip.Addr, error) {
	addrs := make([]netip.Addr, 0, len(conf.sets))
	p.line.Outcome = outcomeNew
	for n := range conf.sets {
		addr, err := p.pick(tx, conf, n, now)
		if errors.Is(err, ipam.ErrExhausted) {
			return nil, p.exhausted(tx, conf, n, now, err)
		}
		if err != nil {
			return nil, err
		}
		if err := tx.SetCursor(conf.network, n, addr); err != nil {
			return nil, fmt.Errorf("move cursor: %w", err)
		}
		addrs = append(addrs, addr)
	}
	p.line.Addresses = addrs
	return addrs, nil
}

// pick returns the address asked for by number, or else the next free one.
func (p *Plugin) pick(tx *persistence.Tx, conf *config, n int, now reservation.Moment) (netip.Addr, error) {
	want := conf.wanted[n]
	if !want.IsValid() {
		return p.next(tx, conf, n, now)
	}
	for _, relief := range p.reliefs(tx, conf, now) {
		if err := relief(); err != nil {
			return want, err
		}
		held, err := heldByAny(tx, conf, want)
		if err != nil || !held {
			return want, err
		}
	}
	return want, requestedError(fmt.Sprintf("failed to allocate for range %d: requested IP address %s is not available in range set %s", n, want, conf.sets[n]))
}

// heldByAny reports whether the state or host-local holds an address.
func heldByAny(tx *persistence.Tx, conf *config, a netip.Addr) (bool, error) {
	if held, err := tx.Held(conf.network, a); held || err != nil {
		return held, err
	}
	return takenIn(conf.hostLocal, a)
}

// reliefs are the ways to free addresses that nobody loses by, the cheapest first: mostly
// there is one that is free already.
func (p *Plugin) reliefs(tx *persistence.Tx, conf *config, now reservation.Moment) []func() error {
	return []func() error{
		func() error { return nil },
		func() error { _, err := lifecycle.FreeLapsed(tx, conf.network, now); return err },
		func() error { return p.sweepFound(tx, conf.network) },
		func() error { return p.sweepHostLocal(tx, conf, now) },
		func() error { return p.sweepUnmirrored(tx, conf, now, reservation.AttachmentID{}) },
	}
}

// next returns the next free address of a set. When there is none it frees lapsed
// reservations, and then, unless the network says refuse, the one that ends
// soonest (rule 2).
func (p *Plugin) next(tx *persistence.Tx, conf *config, n int, now reservation.Moment) (netip.Addr, error) {
	cursor := tx.Cursor(conf.network, n)
	if !cursor.IsValid() {
		cursor = conf.hostLocal.Cursor(n) // go on where it stopped
	}
	reclaim := func() error { return p.reclaim(tx, conf, conf.sets[n], now) }
	for _, relief := range append(p.reliefs(tx, conf, now), reclaim) {
		if err := relief(); err != nil {
			return netip.Addr{}, err
		}
		addr, _, err := conf.sets[n].Next(cursor, freeView{tx.Free(conf.network), conf.hostLocal})
		if !errors.Is(err, ipam.ErrExhausted) {
			return addr, err
		}
	}
	return netip.Addr{}, fmt.Errorf("%w: %s", ipam.ErrExhausted, conf.sets[n])
}

// sweepFound frees what a rebuilt state holds for namespaces that are gone by now, unless
// another namespace has it as well: that may be of this network, and the other of one that
// overlaps with it.
func (p *Plugin) sweepFound(tx *persistence.Tx, network string) error {
	all, err := tx.NetNSPlaceholders(network)
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(all, p.alive)
	if len(gone) == 0 {
		return nil
	}
	for _, a := range gone {
		if err := tx.DeleteAttachment(a.ID); err != nil {
			return err
		}
	}
	return p.holdUnexplained(tx, network)
}
