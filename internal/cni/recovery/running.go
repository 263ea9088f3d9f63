package recovery

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/results"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// pluginType is limpet-ipam's ipam.type.
const pluginType = "limpet-ipam"

// Running returns the attachments that must be in the state in dir: those of libcni's cache
// whose configuration names that state, with the addresses that their network namespaces
// still have. Without a function that looks into namespaces, each namespace that exists counts
// as having the addresses that libcni's cache names.
func (r *Recovery) Running(dir string) ([]reservation.Attachment, error) {
	all, err := results.Read(r.Node.ResultsDirs(), reservation.DefaultMaxRetain)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var inside []machine.Interface
	if r.Interfaces != nil {
		if inside, err = r.Interfaces(); err != nil {
			return nil, err
		}
	}
	var running []reservation.Attachment
	for _, c := range all {
		a := c.Attachment
		now, there := r.Node.NetNS(a.NetNS.Path)
		dataDir, kept := keptIn(c.Config, dir)
		if !there || !kept || r.Others.Holds(&netconf.Config{Network: a.ID.Network, DataDir: dataDir}, a) {
			continue
		}
		a.NetNS = now
		a.Addresses = slices.DeleteFunc(a.Addresses, func(addr netip.Addr) bool { return r.Interfaces != nil && !has(inside, now, addr) })
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

// keptIn reports whether a network configuration, or one of a list, is limpet-ipam's with
// its state in dir, and returns the dataDir that it names.
func keptIn(config []byte, dir string) (dataDir string, kept bool) {
	type conf struct {
		IPAM struct {
			Type    string `json:"type"`
			DataDir string `json:"dataDir"`
		} `json:"ipam"`
	}
	var list struct {
		conf
		Plugins []conf `json:"plugins"`
	}
	_ = json.Unmarshal(config, &list) // a configuration of another shape is not limpet-ipam's
	for _, c := range append(list.Plugins, list.conf) {
		state := cmp.Or(c.IPAM.DataDir, persistence.DefaultDir)
		if c.IPAM.Type == pluginType && filepath.IsAbs(state) && sameDir(state, dir) {
			return c.IPAM.DataDir, true
		}
	}
	return "", false
}

// sameDir reports whether two paths lead to one directory.
func sameDir(a, b string) bool { return resolved(a) == resolved(b) }

// resolved returns the absolute path without links. A path that does not exist is resolved
// as far as its parents do.
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
