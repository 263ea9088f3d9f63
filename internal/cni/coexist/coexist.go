// Package coexist lets limpet-ipam share a network with host-local: with its files of running
// pods during a change of plugins, with copies that Limpet keeps for a way back
// (ipam.mirrorHostLocal), and with the records of host-local's fork that reserved addresses.
//
// It returns a source of package outside only if host-local or its fork has a directory for
// the network, or if mirroring is or was on. In all other networks it
// costs each verb only two lookups of directories that are missing.
//
// Its tests run whole verbs over real files: adopt, fork, mirror, duplicate, unreadable and
// foreign_fuzz in internal/cni, and changeover and together in test/plugin.
package coexist

import (
	"cmp"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/node"
	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/internal/hostlocal"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Neighbour is host-local on one node.
type Neighbour struct {
	Node node.Node
}

// Open returns the source of a network that has files of host-local's, and nil without.
func (n *Neighbour) Open(v outside.Verb) outside.Source {
	root, network := cmp.Or(v.Conf.DataDir, hostlocal.DefaultDataDir), v.Conf.Network
	mirrors := v.Conf.Mirror || v.Tx != nil && v.Tx.Mirrored(network)
	if !mirrors && !present(filepath.Join(root, network)) && !present(filepath.Join(root, hostlocal.ForkDir)) {
		return nil
	}
	return &source{files: filesOf(v.Conf), node: n.Node, verb: v}
}

// present reports whether there is a directory, or something hides whether there is one.
func present(path string) bool {
	info, err := os.Stat(path)
	if err == nil {
		return info.IsDir() // a network can have the name of a file of the state
	}
	return !errors.Is(err, os.ErrNotExist)
}

// Holds reports whether a file of host-local's own names the attachment.
func (n *Neighbour) Holds(c *netconf.Config, a reservation.Attachment) bool {
	f := filesOf(c)
	return slices.ContainsFunc(a.Addresses, func(addr netip.Addr) bool {
		h, found, err := f.hostLocal.Holder(addr)
		return err == nil && found && !h.Mirrored && h.Is(a.ID.ContainerID, a.ID.IfName)
	})
}

// Has reports whether a file of host-local's own names the address.
func (n *Neighbour) Has(c *netconf.Config, addr netip.Addr) bool {
	taken, err := filesOf(c).taken(addr)
	return taken && err == nil
}

// source is what host-local's files say about the network of one verb.
type source struct {
	files
	node node.Node
	verb outside.Verb
}

// files are the directories of host-local and of its fork.
type files struct {
	conf      *netconf.Config
	hostLocal hostlocal.Dir
	fork      hostlocal.ForkRecords
}

func filesOf(c *netconf.Config) files {
	return files{conf: c, hostLocal: hostlocal.Of(c.DataDir, c.Network), fork: hostlocal.ForkOf(c.DataDir)}
}

// taken reports whether host-local itself holds an address.
func (f files) taken(a netip.Addr) (bool, error) {
	h, found, err := f.hostLocal.Holder(a)
	return found && !h.Mirrored, err
}
