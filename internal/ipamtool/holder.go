package ipamtool

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/limpet-io/limpet/internal/audit"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// state says how addresses are held.
type state string

const (
	// Attached addresses belong to a container.
	Attached state = "attached"
	// Reserved addresses are kept for their owner.
	Reserved state = "reserved"
)

// loan says what an address that follows its pod is on this node, if it is on loan.
type loan string

const (
	// Lent addresses are those of a node whose pod is on another node.
	Lent loan = "lent"
	// Guest addresses are those of a pod whose address is another node's.
	Guest loan = "guest"
)

// loanOf returns what the epochs of a record say.
func loanOf(lent, guest int64) loan {
	switch {
	case lent != 0:
		return Lent
	case guest != 0:
		return Guest
	}
	return ""
}

// Holder is an attachment or a reservation. The JSON form is documented in docs/operate/operations.md: keys are
// added, never changed.
type Holder struct {
	Network         string           `json:"network"`
	Namespace       string           `json:"namespace,omitempty"`
	Pod             string           `json:"pod,omitempty"`
	PodUID          string           `json:"podUID,omitempty"`
	Interface       string           `json:"interface"`
	IPs             []netip.Addr     `json:"ips"`
	State           state            `json:"state"`
	Loan            loan             `json:"loan,omitempty"`
	ContainerID     string           `json:"containerID"`
	Since           time.Time        `json:"since"`
	AgeSeconds      int64            `json:"ageSeconds"`
	Deadline        *time.Time       `json:"deadline,omitempty"`
	LeftSeconds     *int64           `json:"leftSeconds,omitempty"`
	RetainSeconds   int64            `json:"retainSeconds"`
	Retention       string           `json:"retention"`
	AnnotationsSeen *bool            `json:"wishKnown,omitempty"`
	NetNS           string           `json:"netns,omitempty"`
	NetNSState      audit.NetNSState `json:"netnsState,omitempty"`
	RefusedSince    *time.Time       `json:"refusedSince,omitempty"`
	Sequence        uint64           `json:"sequence"`

	ns reservation.NetNS
}

// holders returns attachments and reservations of a network, or of all networks, sorted by network and address.
func (t *Tool) holders(records reservation.Records, network string) []*Holder {
	now := t.Now()
	all := []*Holder{} // JSON shows an empty list as one
	for _, a := range records.Attachments {
		all = append(all, new(attached(&a, now)))
	}
	for _, r := range records.Reservations {
		all = append(all, new(reserved(&r, now)))
	}
	all = slices.DeleteFunc(all, func(h *Holder) bool { return network != "" && h.Network != network })
	for _, h := range all {
		h.look(t)
	}
	sortHolders(all)
	return all
}

func sortHolders(all []*Holder) {
	slices.SortFunc(all, func(a, b *Holder) int {
		if a.Network != b.Network {
			return cmp.Compare(a.Network, b.Network)
		}
		return slices.CompareFunc(a.IPs, b.IPs, netip.Addr.Compare)
	})
}

// look looks at the network namespace of an attachment.
func (h *Holder) look(t *Tool) {
	if h.State == Attached {
		h.NetNSState = audit.Look(h.ns, t.NetNS)
	}
}

// holder returns the holder that a record describes.
func holder(r persistence.Record, now reservation.Moment) Holder {
	if r.Attachment != nil {
		return attached(r.Attachment, now)
	}
	return reserved(r.Reservation, now)
}

func attached(a *reservation.Attachment, now reservation.Moment) Holder {
	h := Holder{
		Network: a.ID.Network, Namespace: a.Owner.Namespace, Pod: a.Owner.Pod, PodUID: a.UID, Interface: a.ID.IfName,
		IPs: a.Addresses, State: Attached, Loan: loanOf(0, a.Guest), ContainerID: a.ID.ContainerID, Since: a.Since.Wall, AgeSeconds: seconds(now.Since(a.Since)),
		RetainSeconds: seconds(a.Retain), Retention: a.Mode.String(), AnnotationsSeen: new(a.AnnotationsSeen),
		NetNS: a.NetNS.Path, Sequence: a.Seq, ns: a.NetNS,
	}
	if a.RefusedSince != nil {
		h.RefusedSince = &a.RefusedSince.Wall
	}
	return h
}

func reserved(r *reservation.Reservation, now reservation.Moment) Holder {
	h := Holder{
		Network: r.Owner.Network, Namespace: r.Owner.Namespace, Pod: r.Owner.Pod, PodUID: r.UID, Interface: r.Owner.IfName,
		IPs: r.Addresses, State: Reserved, Loan: loanOf(r.Lent, r.Guest), ContainerID: r.ContainerID,
		Since: r.Deadline.From.Wall, AgeSeconds: seconds(now.Since(r.Deadline.From)), RetainSeconds: seconds(r.Retain), Retention: r.Mode.String(), Sequence: r.Seq,
	}
	if r.Deadline.For >= reservation.Forever { // it has no end
		return h
	}
	left := r.Deadline.Left(now)
	leftSeconds, deadline := seconds(left), now.Wall.Add(left).Round(time.Second).UTC()
	if left == 0 {
		deadline = r.Deadline.From.Wall.Add(r.Deadline.For).UTC()
	}
	h.LeftSeconds, h.Deadline = &leftSeconds, &deadline
	return h
}

// seconds returns a duration in seconds, rounded up: 0 left means lapsed.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// reservationOwner returns the owner of the addresses.
func (h *Holder) reservationOwner() reservation.Owner {
	return reservation.Owner{Network: h.Network, Namespace: h.Namespace, Pod: h.Pod, IfName: h.Interface}
}

// owner returns namespace/pod, or "" for a container without a pod.
func (h *Holder) owner() string {
	if o := h.reservationOwner(); o.Named() {
		return o.String()
	}
	return ""
}

// who names the holder in messages.
func (h *Holder) who() string { return audit.Who(h.reservationOwner(), h.ContainerID) }

// addresses joins the addresses as columns and messages show them.
func (h *Holder) addresses() string {
	var text []byte
	for i, a := range h.IPs {
		if i > 0 {
			text = append(text, ',')
		}
		text = a.AppendTo(text)
	}
	return string(text)
}

// match returns the holders with an address, a pod (namespace/pod), or a container ID that begins with the query.
func match(all []*Holder, query string) []*Holder {
	addr, err := netip.ParseAddr(query)
	isAddr := err == nil
	return slices.DeleteFunc(slices.Clone(all), func(h *Holder) bool {
		if isAddr {
			return !slices.Contains(h.IPs, addr.Unmap())
		}
		return h.owner() != query && !strings.HasPrefix(h.ContainerID, query)
	})
}
