package pin

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// AnnotationUnpinned on a pod is the reason why its recorded node was not nominated when
// the pod was created. The node may have recovered by the time the pod is Ready.
const AnnotationUnpinned = "limpet.dev/unpinned"

// AnnotationRecalled on a pod is the node that was nominated in place of the recorded node,
// because it held the addresses of a later life.
const AnnotationRecalled = "limpet.dev/recalled-node"

// AnnotationFormer on a recalled pod is the life by which its node was found: the UID, a
// space, and the addresses. When the new pod is Ready, the node shows the new pod's life.
const AnnotationFormer = "limpet.dev/recalled-life"

// Causes of an outcome other than Kept. The reasons of a Decision are causes too.
const (
	CauseNotPinned     = "NotPinned"                        // no webhook answered when the pod was created
	CauseRecalled      = "Recalled"                         // another node held the addresses of a later life than the recorded one
	CauseReleased      = "Released"                         // the pod had waited for its required place, and was released from it
	CauseSameTopology  = "SameTopology"                     // a part of the cluster was asked for, not the node
	CauseNodeRefused   = "NodeRefused"                      // the scheduler found that the node could not take the pod
	CauseConstraint    = "ConstraintElsewhere"              // a hard constraint of the pod itself forbids its required place
	CauseLabelMissing  = appsv1beta1.ReasonNodeLabelMissing // the recorded node lacked a label that is asked for
	CauseExpired       = "Expired"                          // the pod was away for longer than its address was kept
	CauseRangeChanged  = "RangeChanged"                     // the node's range does not hold the address any more
	CauseNameTaken     = "NameTaken"                        // a pod of the same name, of another owner, had the address in between
	CauseReclaimed     = "Reclaimed"                        // another pod got the address when no other was left
	CauseForced        = "Forced"                           // the reservation was ended before its time, and no pod has the address
	CauseStateReplaced = "StateReplaced"                    // the node was installed again, or its state removed, after the pod was recorded
	CauseNotHeld       = "AddressNotHeld"                   // the node no longer held the address; it is unknown when the pod went
)

// unpinnedReasons are the values of AnnotationUnpinned that tell of the recorded node. A user can write any value.
var unpinnedReasons = []string{ReasonNodeGone, ReasonNodeNotReady, ReasonNodeCordoned, ReasonNodeTainted, ReasonNodeOutOfIPs}

// RebuildInput are the facts from which a rebuild is judged.
type RebuildInput struct {
	// Pod that is Ready again.
	Pod *corev1.Pod
	// Before is the record of the pod of its name that was Ready last.
	Before appsv1beta1.PodState
	// Node that is recorded; nil when it does not exist any more.
	Node *corev1.Node
	// OutsideRequired tells that the pod is not in the place that is required of it.
	OutsideRequired bool
	// InPlace tells that the pod's node has the recorded value of every label that is asked for.
	InPlace bool
	// Unrecorded is a label that is asked for and of which no value is recorded; "" for none. A
	// required one comes first.
	Unrecorded         string
	UnrecordedRequired bool
	// Taken is another pod that has one of the recorded addresses now.
	Taken types.NamespacedName
	// NameTaken tells that a pod of the same name, which is not of the workload, had the addresses.
	NameTaken bool
	// Gone is when the former pod was found gone; zero when that is unknown.
	Gone time.Time
	// StateSince is when the state of the recorded node was begun; zero when that is unknown.
	StateSince time.Time
	// Now is the time of the judgement.
	Now time.Time
}

// Judge says whether a pod that came back was kept, and if not, why. It returns nil for a pod
// that is still the recorded one, and when too little is recorded to tell. A pod whose
// sandbox alone was rebuilt, as by a reboot, counts as rebuilt if its addresses changed.
//
// A pod without a retention request asked for its place only. Such a pod is kept in that
// place, and its addresses are only told. The same holds for addresses that a user gave up.
func Judge(in RebuildInput) *appsv1beta1.Rebuild {
	from := appsv1beta1.Place{NodeName: in.Before.NodeName, IPs: in.Before.IPs}
	to := appsv1beta1.Place{NodeName: in.Pod.Spec.NodeName, IPs: Addresses(in.Pod)}
	switch {
	case in.Before.UID == "": // recorded by a version that did not compare
		return nil
	case in.Before.UID == in.Pod.UID && (from.IPs == "" || to.IPs == "" || equal(from, to)):
		return nil // other addresses mean a rebuilt sandbox, which counts
	}
	r := &appsv1beta1.Rebuild{Pod: in.Pod.Name, From: from, To: to, Time: metav1.NewTime(in.Now.Truncate(time.Second))}
	unasked := unaskedBecause(in.Before)
	switch {
	case equal(from, to):
		r.Outcome = appsv1beta1.Kept
	case unasked != "" && from.NodeName == to.NodeName:
		r.Outcome, r.Message = appsv1beta1.Kept, "the node is the same; "+unasked
	case unasked != "" && in.InPlace:
		r.Outcome, r.Message = appsv1beta1.Kept, "the node has the labels that were asked for; "+unasked
	case from.NodeName != to.NodeName:
		r.Outcome = appsv1beta1.Moved
		r.Cause, r.Message = whyMoved(in)
	default:
		r.Outcome = appsv1beta1.Lost
		r.Cause, r.Message = whyLost(in)
	}
	return r
}

// unaskedBecause says why a pod has no claim to the addresses of its record; empty if it has one.
func unaskedBecause(before appsv1beta1.PodState) string {
	switch {
	case before.RetainSeconds == 0:
		return "the pod did not ask for its address to be kept"
	case gaveUp(before):
		return "a user gave the address up"
	}
	return ""
}

// whyMoved prefers what the webhook knew when it created the pod over the node's state now.
func whyMoved(in RebuildInput) (cause, message string) {
	name := in.Before.NodeName
	noted, recalled := in.Pod.Annotations[AnnotationUnpinned], in.Pod.Annotations[AnnotationRecalled]
	reason, message := fit.Obstacle(in.Node, in.Pod)
	unpinned := in.Pod.Annotations[appsv1beta1.AnnotationInjected] == ""
	switch {
	case in.Before.ReleasedAt != nil && in.OutsideRequired:
		return CauseReleased, fmt.Sprintf("the pod was released from its required place, that of node %s, which did not take the pod", name)
	case noted == ReasonSubsetElsewhere:
		return noted, fmt.Sprintf("the WorkloadSpread gave the pod another subset than that of node %s", name)
	case unpinned && in.OutsideRequired: // a pinned pod would have waited, in whatever state the node is
		return CauseNotPinned, "no webhook answered when the pod was created, so that nothing held it to its required place"
	case recalled != "" && recalled != name:
		return CauseRecalled, fmt.Sprintf("a later life of the pod than the one recorded on node %s had its addresses on node %s", name, recalled)
	case noted == ReasonPodElsewhere:
		return noted, "the pod itself asks for another place than node " + name
	case in.UnrecordedRequired: // whatever became of the node: nothing held the pod to it
		return CauseLabelMissing, fmt.Sprintf("node %s had no label %s, so that nothing held the pod to its required place", name, cut(in.Unrecorded))
	case slices.Contains(unpinnedReasons, noted) && noted != reason:
		return noted, fmt.Sprintf("node %s could not take the pod when it was created", name)
	case reason != "":
		return reason, fmt.Sprintf("node %s %s", name, message)
	case unpinned:
		return CauseNotPinned, "no webhook answered when the pod was created"
	case in.Pod.Annotations[AnnotationNode] == "" && in.Unrecorded != "":
		return CauseLabelMissing, fmt.Sprintf("node %s had no label %s, so that the pod preferred no place", name, cut(in.Unrecorded))
	case in.Pod.Annotations[AnnotationNode] == "":
		return CauseSameTopology, fmt.Sprintf("the pod asked for a node like %s, not for that node", name)
	}
	return CauseNodeRefused, fmt.Sprintf("the scheduler found no room for the pod on node %s, or a constraint against it", name)
}

func whyLost(in RebuildInput) (cause, message string) {
	name, retain := in.Before.NodeName, time.Duration(in.Before.RetainSeconds)*time.Second
	switch {
	case outside(in.Node, in.Before.IPs) && !outside(in.Node, Addresses(in.Pod)):
		return CauseRangeChanged, fmt.Sprintf("the address no longer belongs to node %s", name)
	case in.NameTaken:
		return CauseNameTaken, fmt.Sprintf("another pod of the name %s, which is not of this workload, took the address while it was reserved", in.Pod.Name)
	case !in.Gone.IsZero() && in.Now.Sub(in.Gone) >= retain:
		return CauseExpired, fmt.Sprintf("the pod was away for longer than the %s that its address was kept", retain)
	case stateReplaced(in):
		return CauseStateReplaced, fmt.Sprintf("node %s began a new state, without the address: the node was installed again, or its state was removed", name)
	case in.Taken.Name != "":
		return CauseReclaimed, fmt.Sprintf("%s got the address when no other was left", taker(in))
	case in.Gone.IsZero():
		return CauseNotHeld, fmt.Sprintf("node %s no longer held the address, and it is unknown when the pod went", name)
	}
	return CauseForced, fmt.Sprintf("node %s gave the address up before its time: it was released by hand, or the node's state was lost", name)
}

// stateReplaced reports whether the state that had the address is gone. A pod that ended long after the state was begun
// was in that state.
func stateReplaced(in RebuildInput) bool {
	recorded := in.Before.RecordedAt
	return recorded != nil && in.StateSince.After(recorded.Time) && in.Gone.Sub(in.StateSince) < time.Minute
}

// taker names the pod that has the address to the users of a namespace, who may know the pods
// of no other one.
func taker(in RebuildInput) string {
	if in.Taken.Namespace != in.Pod.Namespace {
		return "a pod of another namespace"
	}
	return "pod " + in.Taken.Name
}

// Loses reports whether a pod is Ready on its node without the addresses that it had.
func Loses(before appsv1beta1.PodState, pod *corev1.Pod) bool {
	now := Addresses(pod)
	return workload.Ready(pod) && before.NodeName == pod.Spec.NodeName && before.IPs != "" && now != "" && !sameIPs(now, before.IPs)
}

func equal(a, b appsv1beta1.Place) bool { return a.NodeName == b.NodeName && sameIPs(a.IPs, b.IPs) }

// sameIPs compares addresses in any order: the kubelet begins with the node's own family, the
// plugin with the first of its configuration.
func sameIPs(a, b string) bool {
	sorted := func(ips string) []string { return slices.Sorted(strings.SplitSeq(ips, ",")) }
	return slices.Equal(sorted(a), sorted(b))
}

// outside reports whether a node has ranges, and an address is in none of them.
func outside(node *corev1.Node, ips string) bool {
	if node == nil || len(node.Spec.PodCIDRs) == 0 {
		return false
	}
	return slices.ContainsFunc(strings.Split(ips, ","), func(ip string) bool {
		addr, err := netip.ParseAddr(ip)
		return err == nil && !slices.ContainsFunc(node.Spec.PodCIDRs, func(cidr string) bool {
			prefix, err := netip.ParsePrefix(cidr)
			return err != nil || prefix.Contains(addr)
		})
	})
}

// Addresses returns a pod's addresses, separated by commas, in the order of the kubelet.
func Addresses(pod *corev1.Pod) string {
	ips := make([]string, len(pod.Status.PodIPs))
	for i, ip := range pod.Status.PodIPs {
		ips[i] = ip.IP
	}
	return strings.Join(ips, ",")
}

// count adds rebuilds to the counters of a status.
func count(before *appsv1beta1.Rebuilds, rebuilds []appsv1beta1.Rebuild) *appsv1beta1.Rebuilds {
	if len(rebuilds) == 0 {
		return before
	}
	after := &appsv1beta1.Rebuilds{}
	if before != nil {
		after = before.DeepCopy()
	}
	for i := range rebuilds {
		switch rebuilds[i].Outcome {
		case appsv1beta1.Kept:
			after.Kept++
		case appsv1beta1.Moved:
			after.Moved++
		case appsv1beta1.Lost:
			after.Lost++
		}
	}
	after.Last = &rebuilds[len(rebuilds)-1]
	return after
}
