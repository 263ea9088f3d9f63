// Package node holds the functions through which the CNI verbs see the machine. Tests pass
// other functions. Package machine has the real ones.
package node

import (
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Node reads the clocks and the network namespaces of the machine.
type Node struct {
	// Now reads the clocks.
	Now func() reservation.Moment
	// NetNS looks at the network namespace bound to a path; false when there is none.
	NetNS func(path string) (reservation.NetNS, bool)
	// ResultsDir is libcni's result cache.
	ResultsDir string
}

// Alive reports whether the network namespace of an attachment is the one that was there
// at its ADD.
func (n Node) Alive(a reservation.Attachment) bool {
	if a.NetNS.Path == "" || a.NetNS.Inode == 0 {
		return false
	}
	if a.Since.BootID != "" && a.Since.BootID != n.Now().BootID {
		return false // a reboot ended the namespace, whatever has its path and number now
	}
	now, found := n.NetNS(a.NetNS.Path)
	return found && now == a.NetNS
}
