package audit

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// NetNSState says whether the network namespace of an attachment still exists.
type NetNSState string

const (
	// There means that the network namespace exists.
	There NetNSState = "there"
	// Gone means that the network namespace does not exist, or that another one has its path.
	Gone NetNSState = "gone"
	// Unknown means that too little was recorded at ADD to tell.
	Unknown NetNSState = "unknown"
)

// Look says whether a recorded network namespace still exists. The function netns returns the namespace that is bound
// to a path.
func Look(was reservation.NetNS, netns func(path string) (reservation.NetNS, bool)) NetNSState {
	if was.Path == "" || was.Inode == 0 {
		return Unknown
	}
	switch now, found := netns(was.Path); {
	case found && now.Inode == 0:
		return Unknown
	case !found || now != was:
		return Gone
	}
	return There
}

// ShortID returns the first 13 characters of a container ID, as crictl prints it.
func ShortID(id string) string {
	const most = 13
	if len(id) == 64 {
		return id[:most]
	}
	return id
}

// Who names a container in messages, with its pod if it has one.
func Who(o reservation.Owner, containerID string) string {
	if o.Named() {
		return fmt.Sprintf("pod %s (container %s)", o, ShortID(containerID))
	}
	return "container " + ShortID(containerID)
}

// holder is a record that holds addresses.
type holder struct{ persistence.Record }

// subject names the network and the addresses.
func (h holder) subject() string {
	parts := []string{h.Network()}
	for _, a := range h.Addresses() {
		parts = append(parts, a.String())
	}
	return strings.Join(parts, " ")
}

// relation says how the holder holds the addresses.
func (h holder) relation() string {
	if h.Attachment != nil {
		return "attached to " + Who(h.Attachment.Owner, h.Attachment.ID.ContainerID)
	}
	return "reserved for " + h.Reservation.Owner.String()
}

// is reports whether the holder is the container of an attachment. A rebuilt state may know a container by its network
// namespace only.
func (h holder) is(a reservation.Attachment) bool {
	return h.Attachment != nil && (h.Attachment.ID.ContainerID == a.ID.ContainerID || h.Attachment.NetNS.Path == a.NetNS.Path)
}

// compare compares by network and addresses.
func (h holder) compare(o holder) int {
	return cmp.Or(cmp.Compare(h.Network(), o.Network()), slices.CompareFunc(h.Addresses(), o.Addresses(), netip.Addr.Compare))
}
