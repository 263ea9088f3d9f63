package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Attachment is a stored attachment with a fact about its sandbox.
type Attachment struct {
	reservation.Attachment
	// NetNSGone is true when the network namespace certainly does not exist any more.
	NetNSGone bool
}

// AttachmentsInput holds the attachments and pods of a node.
type AttachmentsInput struct {
	Now         reservation.Moment
	Attachments []Attachment
	// Pods are the pods that the API server has bound to this node.
	Pods []corev1.Pod
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
	// Corrected are attachments whose pod asks for something else than is stored: the
	// annotation was changed, or the runtime passed on no annotations.
	Corrected []Correction
	// Ended are attachments whose sandbox and pod are both gone: their DEL was lost.
	Ended []reservation.AttachmentID
}

// Correction is what the pod of an attachment asks for.
type Correction struct {
	ID      reservation.AttachmentID
	Request reservation.RetentionRequest
}

// Apply returns the attachment as corrected.
func (c Correction) Apply(a reservation.Attachment) reservation.Attachment {
	a.Retain, a.Mode, a.AnnotationsSeen = c.Request.Retain, c.Request.Mode, true
	return a
}

// Attachments compares the stored attachments with the pods and sandboxes that exist.
func Attachments(in AttachmentsInput) AttachmentsDecision {
	byUID := map[string]corev1.Pod{}
	byName := map[string]bool{}
	for _, p := range in.Pods {
		byUID[string(p.UID)] = p
		byName[p.Namespace+"/"+p.Name] = true
	}
	var d AttachmentsDecision
	for _, a := range in.Attachments {
		if !a.Owner.Named() {
			continue // not a pod: only its runtime knows whether it lives
		}
		pod, bound := byUID[a.UID]
		switch {
		case bound && a.UID != "":
			request, _ := reservation.ParseRetentionRequest(pod.Annotations, in.maxRetain(a.ID.Network)) // the pod webhook has sent the warnings
			if !a.AnnotationsSeen || request.Retain != a.Retain || request.Mode != a.Mode {
				d.Corrected = append(d.Corrected, Correction{a.ID, request})
			}
		case !byName[a.Owner.String()] && a.NetNSGone && in.Now.Since(a.Since) > in.Grace:
			d.Ended = append(d.Ended, a.ID)
		}
	}
	return d
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
