package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Attachment is a stored attachment with facts about its sandbox.
type Attachment struct {
	reservation.Attachment
	// NetNSGone is true when the network namespace certainly does not exist any more, and
	// NetNSExists when it certainly does. Both are false for a namespace that the agent cannot see.
	NetNSGone, NetNSExists bool
}

// AttachmentsInput holds the attachments and pods of a node.
type AttachmentsInput struct {
	Now         reservation.Moment
	Attachments []Attachment
	// Pods are the pods of this node.
	Pods PodList
	// Follows is the network in which addresses follow; "" for none.
	Follows string
	// Grace is the age from which an attachment without pod and sandbox is ended.
	Grace time.Duration
	// MaxRetain is the longest retention that a network allows, by the network's name.
	// DefaultMaxRetain holds for networks that are not in the map.
	MaxRetain        map[string]time.Duration
	DefaultMaxRetain time.Duration
}

func (in AttachmentsInput) maxRetain(network string) time.Duration {
	if limit, known := in.MaxRetain[network]; known {
		return limit
	}
	return in.DefaultMaxRetain
}

// AttachmentsDecision holds the corrections of the state.
type AttachmentsDecision struct {
	// Corrected are attachments whose pod asks for something else than is stored, or has an owner: the
	// annotation was changed, or the runtime passed on no annotations, or the state was made again.
	Corrected []Correction
	// Ended are attachments whose sandbox is gone, and whose pod is gone or has a newer one: their
	// DEL was lost.
	Ended []reservation.AttachmentID
}

// Correction is what the pod of an attachment asks for.
type Correction struct {
	ID      reservation.AttachmentID
	Request reservation.RetentionRequest
	// Owner is the name under which the addresses are kept; "" for the stored one.
	Owner string
}

// Apply returns the attachment as corrected.
func (c Correction) Apply(a reservation.Attachment) reservation.Attachment {
	a.Retain, a.Mode, a.AnnotationsSeen = c.Request.Retain, c.Request.Mode, true
	a.Owner.Pod = cmp.Or(c.Owner, a.Owner.Pod)
	return a
}

// Attachments compares the stored attachments with the pods and sandboxes that exist.
func Attachments(in AttachmentsInput) AttachmentsDecision {
	byUID := map[string]corev1.Pod{}
	for _, p := range in.Pods.Items {
		byUID[string(p.UID)] = p
	}
	byName, newest := in.Pods.names(), newestRunning(in.Attachments)
	var d AttachmentsDecision
	for _, a := range in.Attachments {
		if a.lostDEL(in, byName, newest) {
			d.Ended = append(d.Ended, a.ID)
			continue
		}
		pod, bound := byUID[a.UID]
		if !a.Owner.Named() || !bound || a.UID == "" || (in.Pods.FromCreation && a.AnnotationsSeen) {
			continue
		}
		request, _ := reservation.ParseRetentionRequest(pod.Annotations, in.maxRetain(a.ID.Network)) // the pod webhook has sent the warnings
		request = a.orByArgs(request.On(a.ID.Network == in.Follows, in.maxRetain(a.ID.Network)), pod.Annotations)
		if NeverReturns(&pod) {
			request = reservation.RetentionRequest{}
		}
		owner := "" // a state that was made again knows names of pods alone; each network may have a claim of its own
		if known := reservation.OwnerName("", pod.Annotations); known != a.Owner.Pod && reservation.ClaimOf(a.Owner.Pod) == "" {
			owner = known
		}
		if !a.AnnotationsSeen || owner != "" || request.Retain != a.Retain || request.Mode != a.Mode {
			d.Corrected = append(d.Corrected, Correction{a.ID, request, owner})
		}
	}
	return d
}

// orByArgs keeps what the plugin read in the cni-args of the network, where the pod has no annotation instead.
func (a Attachment) orByArgs(request reservation.RetentionRequest, annotations map[string]string) reservation.RetentionRequest {
	stays := func(key string, annotated bool) bool {
		return a.AnnotationsSeen && !annotated && slices.ContainsFunc(reservation.NetworkSelections, func(selection string) bool {
			return strings.Contains(annotations[selection], key)
		})
	}
	_, mode := annotations[reservation.ModeAnnotation]
	if stays(reservation.RetainAnnotation, reservation.Asks(annotations)) {
		request.Retain = a.Retain
	}
	if stays(reservation.ModeAnnotation, mode) {
		request.Mode = a.Mode
	}
	return request
}

// lostDEL reports whether the sandbox of an attachment is gone and no DEL will come: the pod is
// gone or has a newer sandbox. The sandbox of a pod that exists may have ended with the machine,
// and its next ADD claims the addresses. Only the runtime knows containers that are no pods.
func (a Attachment) lostDEL(in AttachmentsInput, byName map[string]bool, newest map[reservation.Owner]uint64) bool {
	if !a.NetNSGone || in.Now.Since(a.Since) <= in.Grace {
		return false
	}
	if !a.Owner.Named() {
		return in.Pods.Containers != nil && !in.Pods.Containers[a.ID.ContainerID] && !a.ID.IsNetNSPlaceholder()
	}
	return !a.podIn(byName) || newest[a.Owner] > a.Seq
}

// newestRunning returns the sequence number of the newest attachment of each owner whose sandbox
// may exist.
func newestRunning(attachments []Attachment) map[reservation.Owner]uint64 {
	newest := map[reservation.Owner]uint64{}
	for _, a := range attachments {
		if a.Owner.Named() && !a.NetNSGone {
			newest[a.Owner] = max(newest[a.Owner], a.Seq)
		}
	}
	return newest
}

// Running counts the attachments whose sandbox may exist. The others may have had their DEL
// from host-local, after the network went back to it.
func Running(attachments []Attachment) int {
	running := 0
	for _, a := range attachments {
		if !a.NetNSGone {
			running++
		}
	}
	return running
}
