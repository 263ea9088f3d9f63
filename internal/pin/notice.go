package pin

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of the events about the addresses of pods.
const (
	ReasonReserved  = "Reserved"     // a pod ended, and its addresses are reserved for it
	ReasonReturned  = "Returned"     // several pods of a workload are Ready again in their places; a single pod has the event Kept
	ReasonExpired   = CauseExpired   // the time of a reservation is over, and its pod did not come back to it
	ReasonReclaimed = CauseReclaimed // a reserved address went to another pod, because no other was left
	ReasonGivenUp   = "GivenUp"      // a user gave a reservation up, and its node has ended it
	ReasonConflict  = "Conflict"     // two pods have one address
	ReasonNotOwner  = "NotOwner"     // a pod has other addresses than those of its owner
)

// Notice is what happened to the addresses of one pod.
type Notice struct {
	Reason    string
	Namespace string
	// Workload is what the notices of several pods are gathered by.
	Workload string
	Pod      string
	UID      types.UID
	Node     string
	IPs      string
	// Until is the end of the reservation.
	Until time.Time
	// Other is the other pod of Reclaimed, Conflict and NotOwner.
	Other types.NamespacedName
	// About is the workload, where it is known without a read.
	About *corev1.ObjectReference
	// By is the object that the event of a single pod is related to.
	By *corev1.ObjectReference
	// Text is what the event of a single pod says; empty for what the other fields say.
	Text string
}

// WorkloadName returns the name of the StatefulSet that would give a pod its name, or else the name
// of the pod. The notices of pods whose objects are gone are gathered by it.
func WorkloadName(pod string) string {
	if i := strings.LastIndexByte(pod, '-'); i > 0 {
		return pod[:i]
	}
	return pod
}

// Digest is the notices of one workload and one reason, for one event.
type Digest struct {
	Reason, Namespace, Workload string
	Notices                     []Notice
	// More is how many further pods there are.
	More int
	// LeftOut is how many notices of the namespace no event tells.
	LeftOut int
}

const (
	// longestDigest is how long the text of an event may be; the API allows 1024 bytes.
	longestDigest = 1000
	// mostNamed is how many pods an event names.
	mostNamed = 10
)

// Warning reports whether an operator should look at a digest.
func (d Digest) Warning() bool { return warns(d.Reason) }

func warns(reason string) bool {
	return reason == ReasonReclaimed || reason == ReasonConflict || reason == ReasonNotOwner
}

// Single reports whether a digest is about one pod.
func (d Digest) Single() bool { return len(d.Notices)+d.More == 1 }

// Text returns what the event of a digest says.
func (d Digest) Text() string {
	left := ""
	if d.LeftOut > 0 {
		left = fmt.Sprintf("; %d further notices of this namespace were left out", d.LeftOut)
	}
	if d.Single() {
		text := d.Notices[0].Text
		if text == "" {
			text = d.Notices[0].sentence()
		}
		return shortened(text, longestDigest-len(left)) + left
	}
	return d.list(longestDigest-len(left)) + left
}

// sentence tells the notice of one pod.
func (n Notice) sentence() string {
	switch n.Reason {
	case ReasonReserved:
		return fmt.Sprintf("pod %s has ended, and %s stays reserved for it on node %s until %s", n.Pod, n.IPs, n.Node, clockTime(n.Until))
	case ReasonExpired:
		return fmt.Sprintf("the reservation of %s on node %s for pod %s has ended, and the pod did not come back to it", n.IPs, n.Node, n.Pod)
	case ReasonGivenUp:
		return fmt.Sprintf("a user gave up %s on node %s, which was reserved for pod %s until %s", n.IPs, n.Node, n.Pod, clockTime(n.Until))
	case ReasonReclaimed:
		return fmt.Sprintf("%s got %s of node %s, which was reserved for pod %s until %s", n.other(), n.IPs, n.Node, n.Pod, clockTime(n.Until))
	case ReasonConflict:
		return fmt.Sprintf("pod %s and %s both have %s on node %s; look with: limpet-ipam check", n.Pod, n.other(), n.IPs, n.Node)
	case ReasonNotOwner:
		return fmt.Sprintf("pod %s has %s on node %s, which is not kept for its owner: %s", n.Pod, n.IPs, n.Node, n.why())
	}
	return fmt.Sprintf("pod %s is on node %s with %s", n.Pod, n.Node, n.IPs)
}

// why says why a pod has not the addresses of its owner.
func (n Notice) why() string {
	if n.Other.Name == "" {
		return "no controller answered when the pod was created, or its own does not exist; remedy: delete the pod"
	}
	return n.other() + " lives; remedy: one replica, and the strategy Recreate or maxSurge: 0"
}

// other names the other pod to the users of a namespace, who may know the pods of no other one.
func (n Notice) other() string {
	if n.Other.Namespace != n.Namespace {
		return "a pod of another namespace"
	}
	return "pod " + n.Other.Name
}

// list tells the notices of several pods, and names as many as have room.
func (d Digest) list(room int) string {
	const more = len(" and 1000000 more")
	text := d.head()
	for i, n := range d.Notices {
		item := fmt.Sprintf(" %s (%s on %s),", n.Pod, n.IPs, n.Node)
		if i == mostNamed || len(text)+len(item)+more > room {
			return fmt.Sprintf("%s and %d more", text, len(d.Notices)-i+d.More)
		}
		text += item
	}
	if d.More > 0 {
		return fmt.Sprintf("%s and %d more", text, d.More)
	}
	return strings.TrimSuffix(text, ",")
}

// Names reports whether the text of a digest of several pods names a pod.
func Names(text, pod string) bool { return strings.Contains(text, " "+pod+" (") }

// Named returns the pods that the text of a digest of several pods names.
func Named(text string) (pods []string) {
	parts := strings.Split(text, " (")
	for _, part := range parts[:len(parts)-1] {
		pods = append(pods, part[strings.LastIndexByte(part, ' ')+1:])
	}
	return pods
}

func (d Digest) head() string {
	n := len(d.Notices) + d.More
	switch d.Reason {
	case ReasonReserved:
		first := d.Notices[0].Until
		for _, notice := range d.Notices {
			if notice.Until.Before(first) {
				first = notice.Until
			}
		}
		return fmt.Sprintf("%d pods have ended, and their addresses stay reserved for them, the first until %s:", n, clockTime(first))
	case ReasonReturned:
		return fmt.Sprintf("%d pods are Ready again in their places:", n)
	case ReasonExpired:
		return fmt.Sprintf("%d reservations have ended, and their pods did not come back to them:", n)
	case ReasonGivenUp:
		return fmt.Sprintf("users gave up %d reservations:", n)
	case ReasonReclaimed:
		return fmt.Sprintf("%d reserved addresses went to other pods, because no others were left:", n)
	case ReasonConflict:
		return fmt.Sprintf("%d pods have addresses that other pods have too; look with: limpet-ipam check:", n)
	case ReasonNotOwner:
		return fmt.Sprintf("%d pods have not the addresses of their owners, as others live, or as no controller answered:", n)
	}
	return fmt.Sprintf("%d pods:", n)
}

func clockTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// shortened cuts a text that is longer than an event may be.
func shortened(text string, room int) string {
	if len(text) <= room {
		return text
	}
	return strings.ToValidUTF8(text[:room-len("…")], "") + "…"
}
