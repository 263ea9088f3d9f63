package plan

import (
	"fmt"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// LeftBehindInput holds the attachments and pods of a node.
type LeftBehindInput struct {
	Now         reservation.Moment
	Attachments []Attachment
	// Pods are the pods of this node; nil while they are not known.
	Pods *PodList
	// Grace is the age from which an attachment must have its pod.
	Grace time.Duration
}

// LeftBehind is an attachment whose network namespace exists although its pod is gone.
type LeftBehind struct {
	ID      reservation.AttachmentID
	Problem string
}

// FindLeftBehind returns the attachments whose network namespace no component will end: the runtime was
// wiped, or has lost its sandbox. Their addresses stay attached, because the namespace has them.
func FindLeftBehind(in LeftBehindInput) []LeftBehind {
	newest := newestRunning(in.Attachments)
	var byName map[string]bool
	if in.Pods != nil {
		byName = in.Pods.names()
	}
	var all []LeftBehind
	for _, a := range in.Attachments {
		if !a.NetNSExists || in.Now.Since(a.Since) <= in.Grace {
			continue
		}
		var why string
		switch named := a.Owner.Named(); {
		case in.Pods != nil && in.Pods.Containers != nil && !in.Pods.Containers[a.ID.ContainerID] && !a.ID.IsNetNSPlaceholder():
			why = "the runtime does not know its container"
		case named && in.Pods != nil && !a.podIn(byName):
			why = "its pod is gone"
		case a.RefusedSince != nil && in.Now.Since(*a.RefusedSince) > in.Grace:
			why = "a pod of the same name waits for its end"
		case named && newest[a.Owner] > a.Seq:
			why = "its pod has a newer container"
		default:
			continue
		}
		all = append(all, LeftBehind{a.ID, fmt.Sprintf("keeps the network namespace %s of %s, and %s", a.NetNS.Path, a.Holder(), why)})
	}
	return all
}
