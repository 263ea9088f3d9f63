package audit

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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
	if now, found := netns(was.Path); !found || now != was {
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

// holder is an attachment or a reservation: exactly one of the two is not nil.
type holder struct {
	attached *reservation.Attachment
	reserved *reservation.Reservation
}

func (h holder) network() string {
	if h.attached != nil {
		return h.attached.ID.Network
	}
	return h.reserved.Owner.Network
}

func (h holder) addresses() []netip.Addr {
	if h.attached != nil {
		return h.attached.Addresses
	}
	return h.reserved.Addresses
}

// subject names the network and the addresses.
func (h holder) subject() string {
	parts := []string{h.network()}
	for _, a := range h.addresses() {
		parts = append(parts, a.String())
	}
	return strings.Join(parts, " ")
}

// relation says how the holder holds the addresses.
func (h holder) relation() string {
	if h.attached != nil {
		return "attached to " + Who(h.attached.Owner, h.attached.ID.ContainerID)
	}
	return "reserved for " + h.reserved.Owner.String()
}

// is reports whether the holder is the container of an attachment. A rebuilt state may know a container by its network
// namespace only.
func (h holder) is(a reservation.Attachment) bool {
	return h.attached != nil && (h.attached.ID.ContainerID == a.ID.ContainerID || h.attached.NetNS.Path == a.NetNS.Path)
}

// holders returns attachments and reservations, sorted by network and address.
func holders(r reservation.Records) []holder {
	var sorted []*holder // each sort of another type than pointers takes 10 kB of the plugin
	for i := range r.Attachments {
		sorted = append(sorted, &holder{attached: &r.Attachments[i]})
	}
	for i := range r.Reservations {
		sorted = append(sorted, &holder{reserved: &r.Reservations[i]})
	}
	slices.SortFunc(sorted, func(a, b *holder) int {
		return cmp.Or(cmp.Compare(a.network(), b.network()), slices.CompareFunc(a.addresses(), b.addresses(), netip.Addr.Compare), cmp.Compare(a.relation(), b.relation()))
	})
	all := make([]holder, len(sorted))
	for i, h := range sorted {
		all[i] = *h
	}
	return all
}
