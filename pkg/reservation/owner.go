package reservation

import (
	"fmt"
	"net/netip"
	"time"
)

// Owner is who may come back: one interface of one pod name on one network.
// The pod UID is not part of it; a UID tells one life of an owner from the
// next.
type Owner struct {
	Network   string
	Namespace string
	Pod       string
	IfName    string
}

// Named reports whether the owner has a name to come back under. Containers
// that were not started by Kubernetes have none.
func (o Owner) Named() bool { return o.Namespace != "" && o.Pod != "" }

// String returns namespace/pod, for logs and messages.
func (o Owner) String() string { return o.Namespace + "/" + o.Pod }

// AttachmentID names an attachment, and is the only thing that a DEL may end.
type AttachmentID struct {
	Network     string
	ContainerID string
	IfName      string
}

// String returns the container ID and interface, for logs and messages.
func (id AttachmentID) String() string { return id.ContainerID + " " + id.IfName }

// NetNS is a network namespace as it was seen at ADD. A path can be reused and
// an inode can be reused; both together tell whether the same namespace is
// still there.
type NetNS struct {
	Path  string
	Dev   uint64
	Inode uint64
}

// Mode says what an owner prefers when its own addresses cannot be had.
type Mode uint8

const (
	// Preferred takes a free address after a bounded wait; the default.
	Preferred Mode = iota
	// Required fails rather than take another address.
	Required
)

// String returns the annotation value of the mode.
func (m Mode) String() string {
	if m == Required {
		return "required"
	}
	return "preferred"
}

// Attachment is one (network, container, interface) that holds addresses now.
type Attachment struct {
	ID    AttachmentID
	Owner Owner
	// UID is the pod's, or "" where the runtime does not tell it.
	UID string
	// Addresses has one address of each range set, in the order of the sets.
	Addresses []netip.Addr
	// Retain is how long the addresses stay reserved after the end; 0 frees them.
	Retain time.Duration
	Mode   Mode
	// AnnotationsSeen tells that Retain and Mode are what the pod asked for; until then
	// they are only what is assumed of a pod whose annotations nobody passed on.
	AnnotationsSeen bool
	NetNS           NetNS
	Since           Moment
	// Seq grows with every ADD on the node: the higher one is the newer life.
	Seq uint64
	// Claimed is the reservation that the ADD claimed, kept to put it back when the ADD is
	// rolled back. Its addresses are the attachment's.
	Claimed *Reservation
	// Dropped is the reservation that the ADD let go, because its addresses could not be
	// handed out, kept for the same.
	Dropped *Reservation
	// RefusedSince is when the successor with RefusedUID was first told to wait for this
	// one's end.
	RefusedSince *Moment
	RefusedUID   string
}

// WantsRetention reports whether the pod asked for anything to be kept. One that has not been
// heard may have.
func (a Attachment) WantsRetention() bool {
	return a.Retain > 0 || a.Mode == Required || !a.AnnotationsSeen
}

// Reservation is a set of addresses kept for an owner until a deadline.
type Reservation struct {
	Owner Owner
	// UID and ContainerID name the life of the owner that ended.
	UID         string
	ContainerID string
	Addresses   []netip.Addr
	Deadline    Deadline
	// Retain and Mode are what that life had asked for.
	Retain time.Duration
	Mode   Mode
	// Seq is that of the attachment that ended.
	Seq uint64
}

// Holder names who holds an address, for messages.
func (a Attachment) Holder() string {
	if a.Owner.Named() {
		return fmt.Sprintf("pod %s (container %s)", a.Owner, a.ID.ContainerID)
	}
	return "container " + a.ID.ContainerID
}
