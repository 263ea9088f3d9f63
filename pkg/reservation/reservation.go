package reservation

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

var (
	// ErrDuplicate is returned for an ADD whose attachment already exists.
	ErrDuplicate = errors.New("duplicate allocation is not allowed")
	// ErrPredecessor is returned while the network namespace of an earlier life of the owner exists. Trying again later
	// helps.
	ErrPredecessor = errors.New("predecessor is still alive")
	// ErrRequired is returned when an owner with mode required cannot have its addresses.
	ErrRequired = errors.New("retention is required")
	// ErrHeld is returned when an address would get a second holder.
	ErrHeld = errors.New("address is held")
	// ErrLoan is returned when an address would be freed that is lent, or that is of another node.
	ErrLoan = errors.New("address is on loan")
)

// Owner names who may come back to addresses: one interface of one pod name, or of one OwnerName, on one network. The pod UID is not part of
// the owner; the UID tells one life of an owner from the next.
type Owner struct {
	Network   string
	Namespace string
	Pod       string // or an OwnerName
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
	// Follow keeps the address without an end, and takes it along to another node: as Required, but a node may lend it.
	Follow
)

// Forever is the length of a reservation that only a positive answer ends.
const Forever = 100 * 365 * 24 * time.Hour

// Keeps reports whether an owner takes no other address than its own.
func (m Mode) Keeps() bool { return m >= Required }

// String returns the annotation value of the mode.
func (m Mode) String() string { return [...]string{"preferred", "required", "follow"}[min(m, Follow)] }

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
	// Guest is the epoch of the loan by which this node has the addresses of another one; 0 for its own.
	Guest int64
	// Caller is the process ID of the interface plugin that asked for the addresses; 0 when it is not known.
	Caller int
}

// WantsRetention reports whether the pod is known to ask for a reservation: the runtime tells it, or the agent later.
func (a Attachment) WantsRetention() bool { return a.Retain > 0 || a.Mode.Keeps() }

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
	// Lent is the epoch of the loan that this node has made: the addresses are handed out to no pod here; 0 for none. Guest is
	// the epoch of the loan by which this node has the addresses of another one; 0 for its own.
	Lent, Guest int64
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

// OnLoan reports whether two nodes know of the addresses: only the agent ends such a reservation.
func (r Reservation) OnLoan() bool { return r.Lent != 0 || r.Guest != 0 }

// LoanID names what an ADD waits for when the agent has not answered yet where the owner's address is. The agent ends the wait as
// the end of this attachment would.
func (o Owner) LoanID() AttachmentID {
	return AttachmentID{Network: o.Network, ContainerID: strings.ReplaceAll("loan."+o.Namespace+"."+o.Pod, "/", "."), IfName: o.IfName}
}

// Release is the end of a use of addresses.
type Release struct {
	Network string
	// UID and IfName name the interface of the pod that had the addresses; "" for a UID that is not known. A new sandbox of
	// the same pod may have them again.
	UID, IfName string
	Addresses   []netip.Addr
	// Until is the moment of the last use.
	Until Moment
}

// Release returns the end of the attachment at a moment.
func (a Attachment) Release(now Moment) Release {
	return Release{Network: a.ID.Network, UID: a.UID, IfName: a.ID.IfName, Addresses: a.Addresses, Until: now}
}

// Release returns the end of the reservation. No pod has used the addresses since it began.
func (r Reservation) Release() Release {
	return Release{Network: r.Owner.Network, UID: r.UID, IfName: r.Owner.IfName, Addresses: r.Addresses, Until: r.Deadline.From}
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

// Moment is one reading of the node's clocks. The wall clock may step. Up (CLOCK_BOOTTIME) never steps, but can be
// compared within one boot only.
type Moment struct {
	Wall   time.Time
	BootID string
	Up     time.Duration
	// Unsure is true for some minutes after a boot, while nothing has set the wall clock right.
	Unsure bool
}

// Since returns the time from then to m, never less than 0. While m is unsure of the wall clock, the time since a moment
// before the boot is at least that since the boot, and nothing more is known.
func (m Moment) Since(then Moment) time.Duration {
	d := m.Wall.Sub(then.Wall)
	switch {
	case m.BootID == then.BootID:
		d = m.Up - then.Up
	case m.Unsure:
		d = m.Up
	}
	return max(d, 0)
}

// Deadline is a length of time counted from a moment. A date would move with a step of the wall clock.
type Deadline struct {
	From Moment
	For  time.Duration
}

// Left returns the time until the deadline, within [0, For]. Within one boot CLOCK_BOOTTIME counts, across boots the
// wall clock. Nothing passes of Forever, which no clock ends.
func (d Deadline) Left(now Moment) time.Duration {
	if d.For >= Forever {
		return d.For
	}
	return min(max(d.For-now.Since(d.From), 0), d.For)
}

// Passed reports whether the deadline has passed.
func (d Deadline) Passed(now Moment) bool { return d.Left(now) == 0 }

// Until returns the wall time of the deadline. One that lasts Forever has a date that does not move with the clocks.
func (d Deadline) Until(now Moment) time.Time {
	if d.For == Forever {
		return d.From.Wall.Add(Forever)
	}
	return now.Wall.Add(d.Left(now))
}

const (
	// DefaultSharePercent is the default of how much of a pool reservations may hold.
	DefaultSharePercent = 50
	// MaxSharePods bounds a share whatever its percentage is. The part of an IPv6 pool is no bound, and the agent keeps
	// about 1.4 KiB of memory for each reservation.
	MaxSharePods = 10_000
	// DefaultReleaseDelay is the default of Limits.ReleaseDelay.
	DefaultReleaseDelay = 30 * time.Second
)

// Limits are the limits of a network for reservations.
type Limits struct {
	Share Share
	// MaxRetain caps how long a pod may ask for.
	MaxRetain time.Duration
	// ReleaseDelay is how long a released address is not given to another owner while others are free; 0 for no delay.
	ReleaseDelay time.Duration
}

// Share is the part of a pool that reservations may hold.
type Share struct {
	// Pods is the number of pods for which addresses may be reserved at a time.
	Pods int64
	// PerNamespace is the number of pods of one namespace; 0 for no bound but Pods.
	PerNamespace int64
	// Refuse is true when no reservation gives way to another one.
	Refuse bool
}

// NewShare returns a percentage of a pool, given as a number of pods. The share is at least one pod, unless the
// percentage is 0, and at most MaxSharePods.
func NewShare(pool int64, percent int, refuse bool) Share {
	return Share{Pods: min(part(pool, percent), MaxSharePods), Refuse: refuse}
}

// part returns a percentage of a number, rounded up.
func part(of int64, percent int) int64 {
	whole, rest := of/100, of%100 // of*percent could overflow
	return whole*int64(percent) + (rest*int64(percent)+99)/100
}

// Quota are bounds of one namespace. The lower one counts.
type Quota struct {
	// Pods is a number of pods, and Percent a part of the pool; 0 for no bound.
	Pods    int64
	Percent int
}

// WithQuota returns the share with the bound of each namespace. A bound that the share reaches first is none: then no
// end of a pod counts the reservations of its namespace.
func (s Share) WithQuota(pool int64, q Quota) Share {
	most := s.Pods
	if q.Pods > 0 {
		most = min(most, q.Pods)
	}
	if q.Percent > 0 {
		most = min(most, part(pool, q.Percent))
	}
	s.PerNamespace = 0
	if most < s.Pods {
		s.PerNamespace = most
	}
	return s
}

const (
	// RetainAnnotation on a pod asks for a reservation of the addresses after the pod's end. The value is a
	// number of minutes, or a Go duration.
	RetainAnnotation = "io.kubernetes.cri/reserved-ip-duration"
	// KeepAnnotation on a pod template, on its workload or on its namespace asks for a reservation, and for the way back
	// to the node. The value is as that of RetainAnnotation. The nearest one counts, after RetainAnnotation.
	KeepAnnotation = "limpet.dev/keep"
	// ModeAnnotation on a pod says what an ADD does when the pod cannot have its own addresses: "required" fails,
	// "preferred" (the default) takes others. With "follow" the pod keeps them without an end, and on other nodes too.
	ModeAnnotation = "limpet.dev/retention"
	// FollowNetwork is the name of the network of own mode, where addresses always follow their pods: NodeNetworkName of the API.
	FollowNetwork = "limpet"
	// HomeAnnotation on a pod that follows is the node that has its address, as the controller wrote it when the pod might be
	// scheduled: an ADD takes no free address then.
	HomeAnnotation = "limpet.dev/home"
	// OwnerAnnotation on a pod template names who may come back to the addresses of the pod: a later pod of the same
	// controller, under whatever name. Pods have the name as the webhook completes it: OwnerName.
	OwnerAnnotation = "limpet.dev/owner"
	// DefaultMaxRetain is the default of the longest reservation that a pod may ask for.
	DefaultMaxRetain = 24 * time.Hour
)

// RetentionRequest is the reservation that a pod asks for with its annotations.
type RetentionRequest struct {
	Retain time.Duration
	Mode   Mode
}

// On returns what is asked for on a network. Where addresses do not follow, "follow" means "preferred": no agent would say where
// the address is. Such a network keeps the address as long as it keeps any.
func (r RetentionRequest) On(follows bool, limit time.Duration) RetentionRequest {
	if r.Mode == Follow && !follows {
		r.Mode, r.Retain = Preferred, limit
	}
	return r
}

// ParseRetentionRequest reads the request from the annotations of a pod. An invalid value never fails the pod: it
// becomes no reservation or the limit, and a warning names the annotation, what is wrong and what happens instead.
func ParseRetentionRequest(annotations map[string]string, limit time.Duration) (request RetentionRequest, warnings []string) {
	for _, key := range []string{RetainAnnotation, KeepAnnotation} {
		value, asks := annotations[key]
		if !asks {
			continue
		}
		retain, warning := ParseKeep(key, value, limit)
		request.Retain = retain
		if warning != "" {
			warnings = append(warnings, warning)
		}
		break
	}
	if v, ok := annotations[ModeAnnotation]; ok {
		mode, warning := ParseMode(v)
		if request.Mode = mode; mode == Follow {
			request.Retain = Forever
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	return request, warnings
}
