// Package node holds the functions through which the CNI verbs see the machine. Tests pass
// other functions. Package machine has the real ones.
package node

import (
	"net/netip"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Node reads the clocks and the network namespaces of the machine.
type Node struct {
	// Now reads the clocks.
	Now func() reservation.Moment
	// NetNS looks at the network namespace bound to a path; false when there is none. The inode is 0 when the path cannot
	// be looked at.
	NetNS func(path string) (reservation.NetNS, bool)
	// Has reports whether a network namespace that exists has one of the addresses. Without
	// this function a namespace counts as having them.
	Has func(reservation.NetNS, []netip.Addr) bool
	// Inside returns the addresses in all network namespaces; with an error, those of the namespaces that could be read. It is
	// nil in a program that does not enter namespaces.
	Inside func() ([]netip.Addr, error)
	// ResultsDir is libcni's result cache.
	ResultsDir string
	// OtherResultsDirs are result caches of programs that call libcni with a cache of their own.
	OtherResultsDirs []string
}

// ResultsDirs returns all result caches.
func (n Node) ResultsDirs() []string { return append([]string{n.ResultsDir}, n.OtherResultsDirs...) }

// Alive reports whether the network namespace of an attachment is the one that was there
// at its ADD.
func (n Node) Alive(a reservation.Attachment) bool { return n.Exists(a.NetNS, a.Since.BootID) }

// Exists reports whether the network namespace at a path is the one that was there in a boot.
func (n Node) Exists(ns reservation.NetNS, bootID string) bool {
	if ns.Path == "" || ns.Inode == 0 {
		return false
	}
	if bootID != "" && bootID != n.Now().BootID {
		return false // a reboot ended the namespace, whatever has its path and number now
	}
	now, found := n.NetNS(ns.Path)
	return found && (now == ns || now.Inode == 0)
}
