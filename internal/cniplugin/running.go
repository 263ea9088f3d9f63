package cniplugin

import (
	"cmp"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/hostlocal"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Running returns what must be in the state in dir, as far as others know: attachments of
// libcni's cache that limpet-ipam gave addresses out of that state, with those addresses
// that the network namespaces still have.
func (p *Plugin) Running(dir string) ([]reservation.Attachment, error) {
	all, err := readCache(p.ResultsDir, reservation.DefaultMaxRetain)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	inside := p.Interfaces()
	var running []reservation.Attachment
	for _, c := range all {
		a := c.attachment
		now, there := p.NetNS(a.NetNS.Path)
		dataDir, kept := keptIn(c.config, dir)
		if !there || !kept || configOf(a.ID.Network, dataDir).hostLocalHolds(a) {
			continue
		}
		a.NetNS = now
		a.Addresses = slices.DeleteFunc(a.Addresses, func(addr netip.Addr) bool { return !has(inside, now, addr) })
		running = append(running, a)
	}
	return running, nil
}

// has reports whether an interface in a network namespace has an address.
func has(all []machine.Interface, in reservation.NetNS, addr netip.Addr) bool {
	return slices.ContainsFunc(all, func(i machine.Interface) bool {
		return i.NetNS.Dev == in.Dev && i.NetNS.Inode == in.Inode && slices.Contains(i.Addresses, addr)
	})
}

// RebuildIn returns what makes the state in dir again where no verb brings the
// configuration of a network.
func (p *Plugin) RebuildIn(dir string) func(persistence.Salvaged) (reservation.Records, error) {
	return p.rebuild(configOf("", dir))
}

// configOf returns the defaults of a network with a dataDir; "" is none.
func configOf(network, dataDir string) *config {
	return &config{
		network: network, dataDir: cmp.Or(dataDir, persistence.DefaultDir), maxReservation: reservation.DefaultMaxRetain,
		hostLocal: hostlocal.New(filepath.Join(hostlocal.Root(dataDir), network)),
	}
}

// sameDir reports whether two paths lead to one directory.
func sameDir(a, b string) bool { return resolved(a) == resolved(b) }

// resolved returns the absolute path without links. What does not exist (any more) is
// resolved as far as its parents do.
func resolved(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil { // no working directory
		return filepath.Clean(path)
	}
	if target, err := filepath.EvalSymlinks(abs); err == nil {
		return target
	}
	if parent := filepath.Dir(abs); parent != abs {
		return filepath.Join(resolved(parent), filepath.Base(abs))
	}
	return abs
}
