package reservation

import (
	"fmt"
	"net/netip"
	"time"
)

// Owner names who may come back to addresses: one interface of one pod name on one network. The pod UID is not part of
// the owner; the UID tells one life of an owner from the next.
type Owner struct {
	Network   string
	Namespace string
	Pod       string
	IfName    string
}

// Named reports whether the owner is a pod. Containers that Kubernetes did not start have no name to come back under.
func (o Owner) Named() bool { return o.Namespace != "" && o.Pod != "" }

// String returns namespace/pod, for logs and messages.
func (o Owner) String() string { return o.Namespace + "/" + o.Pod }

// AttachmentID names an attachment. A DEL may end only the attachment that it names.
type AttachmentID struct {
	Network     string
	ContainerID string
	IfName      string
}

// String returns the container ID and interface, for logs and messages.
func (id AttachmentID) String() string { return id.ContainerID + " " + id.IfName }

// NetNS is a network namespace as seen at ADD. A path can be reused and an inode can be reused; both together tell
// whether the same namespace still exists.
type NetNS struct {
	Path  string
	Dev   uint64
	Inode uint64
}

// Mode says what an ADD does when the owner cannot have its own addresses.
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

// Attachment is one interface of a container on a network, which holds addresses now.
type Attachment struct {
	ID    AttachmentID
	Owner Owner
	// UID is the UID of the pod, or "" when the runtime does not pass it.
	UID string
	// Addresses holds one address of each range set, in the order of the sets.
	Addresses []netip.Addr
	// Retain is how long the addresses stay reserved after the end; 0 frees them at once.
	Retain time.Duration
	Mode   Mode
	// AnnotationsSeen is true when Retain and Mode come from the annotations of the pod. While it is false they are
	// assumptions, because the runtime passed no annotations.
	AnnotationsSeen bool
	NetNS           NetNS
	Since           Moment
	// Seq grows with every ADD on the node: the higher number is the newer life.
	Seq uint64
	// Claimed is the reservation that the ADD claimed, kept for a rollback. It has the attachment's addresses.
	Claimed *Reservation
	// Dropped is the reservation that the ADD dropped because its addresses could not be handed out, kept for a
	// rollback.
	Dropped *Reservation
	// RefusedSince is when the successor with RefusedUID was first told to wait for the end of this attachment.
	RefusedSince *Moment
	RefusedUID   string
	// Caller is the process ID of the interface plugin that asked for the addresses; 0 when it is not known.
	Caller int
}

// WantsRetention reports whether somebody has told that the pod asks for a reservation: the runtime, or the agent later.
func (a Attachment) WantsRetention() bool { return a.Retain > 0 || a.Mode == Required }

// Reservation is a set of addresses kept for an owner until a deadline.
type Reservation struct {
	Owner Owner
	// UID and ContainerID name the life of the owner that ended.
	UID         string
	ContainerID string
	Addresses   []netip.Addr
	Deadline    Deadline
	// Retain and Mode are what the pod of that life had asked for.
	Retain time.Duration
	Mode   Mode
	// Seq is the number of the attachment that ended.
	Seq uint64
	// NetNS is the network namespace of the attachment that ended, and BootID is the boot in which NetNS was seen. The
	// namespace may exist for a while, with the addresses. Without an inode the namespace counts as gone.
	NetNS  NetNS
	BootID string
	// RefusedSince is when the successor with RefusedUID was first told to wait until the namespace loses the addresses.
	RefusedSince *Moment
	RefusedUID   string
}

// LastHolder is what had a free address last. Its network namespace may exist for a while, with the
// address.
type LastHolder struct {
	Network string
	Address netip.Addr
	// ContainerID is the container of the last holder.
	ContainerID string
	NetNS       NetNS
	// BootID is the boot in which NetNS was seen.
	BootID string
}

// Holder returns the name of the attachment for messages.
func (a Attachment) Holder() string {
	if a.Owner.Named() {
		return fmt.Sprintf("pod %s (container %s)", a.Owner, a.ID.ContainerID)
	}
	return "container " + a.ID.ContainerID
}
