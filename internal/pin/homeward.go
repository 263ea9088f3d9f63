package pin

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// AnnotationReturnAfter on a PersistentPodState has its pods return to a node that could not take
// them for a while. The value is how long the node must be able to take the pod, as a Go duration.
const AnnotationReturnAfter = "limpet.dev/return-after"

// AnnotationMayReturn on a pod of such a state is the node to which the pod may return. The webhook
// sets it when it creates the pod. The controller's token may delete a pod that has it elsewhere.
const AnnotationMayReturn = "limpet.dev/may-return"

// ReasonReturning is the reason of the event on a PersistentPodState whose pod is deleted to return.
const ReasonReturning = "Returning"

const (
	// leastReturn is the shortest value of AnnotationReturnAfter: a node that flaps must not make
	// its pods flap.
	leastReturn = time.Minute
	// returnMargin is how long a reservation must last when a pod is deleted to return to it.
	returnMargin = time.Minute
	// returnInterval is how often a pod is looked at that could return but for room, its reservation
	// or its budgets.
	returnInterval = 15 * time.Second
	// mostCandidates is how many pods of a state are looked at, at a time.
	mostCandidates = 64
)

// parseReturn reads AnnotationReturnAfter; 0 for no return.
func parseReturn(annotations map[string]string) (time.Duration, field.ErrorList) {
	text, ok := annotations[AnnotationReturnAfter]
	if !ok {
		return 0, nil
	}
	after, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || after < leastReturn {
		path := field.NewPath("metadata", "annotations").Key(AnnotationReturnAfter)
		return 0, field.ErrorList{field.Invalid(path, cut(text), fmt.Sprintf("must be a duration of at least %s, such as 5m or 1h", leastReturn))}
	}
	return after, nil
}

// returnAfter is how long a node must be able to take a pod before the pod returns; 0 for a state
// whose pods do not return. A pod with a required place waits for it, and needs no return.
func returnAfter(s *appsv1beta1.PersistentPodState) time.Duration {
	if s == nil || s.Spec.RequiredPersistentTopology != nil {
		return 0
	}
	after, _ := parseReturn(s.Annotations) // the webhook has refused what is wrong
	return after
}

// passing are the causes of a move that can pass: the node may take the pod again.
var passing = []string{ReasonNodeNotReady, ReasonNodeCordoned, ReasonNodeTainted, CauseNodeRefused}

// homeOf is the home in the record of a pod that is Ready. It is the place that the pod left for a
// cause that passes, and it stays while the pod is rebuilt elsewhere. A pod is brought home once: a
// pod that was deleted to return and is elsewhere all the same has no home any more.
func homeOf(in RecordInput, before appsv1beta1.PodState, pod *corev1.Pod, rebuild *appsv1beta1.Rebuild) *appsv1beta1.Home {
	home := before.Home
	switch {
	case returnAfter(in.State) == 0, home != nil && home.NodeName == pod.Spec.NodeName:
		return nil
	case home != nil && before.UID != pod.UID && home.ReturningAt != nil:
		return nil
	case home != nil || rebuild == nil:
		return home
	case rebuild.Outcome != appsv1beta1.Moved || before.RetainSeconds == 0 || !slices.Contains(passing, rebuild.Cause):
		return nil
	}
	until := in.Now.Add(time.Duration(before.RetainSeconds) * time.Second).Truncate(time.Second)
	return &appsv1beta1.Home{
		NodeName: before.NodeName, NodeTopologyLabels: maps.Clone(before.NodeTopologyLabels),
		UID: before.UID, IPs: before.IPs, Until: metav1.NewTime(until),
	}
}

// atHome returns the record as if the pod had never left its home.
func atHome(record appsv1beta1.PodState) appsv1beta1.PodState {
	home := record.Home
	record.UID, record.IPs, record.NodeName, record.NodeTopologyLabels = home.UID, home.IPs, home.NodeName, home.NodeTopologyLabels
	return record
}

// ReturnCandidates returns pods that may return now, in order, as far as their records and their homes tell. Room and
// reservations are not looked at: that costs reads.
func ReturnCandidates(in RecordInput) []*corev1.Pod {
	after := returnAfter(in.State)
	if after == 0 || !whole(in) {
		return nil
	}
	var found []*corev1.Pod
	for i := range in.Pods {
		pod := &in.Pods[i]
		record := in.State.Status.PodStates[pod.Name]
		home := record.Home
		if home == nil || record.UID != pod.UID || pod.Annotations[AnnotationMayReturn] != home.NodeName || home.FitSince == nil || in.Now.Sub(home.FitSince.Time) < after {
			continue
		}
		if node := in.Nodes[home.NodeName]; node != nil && !obstructed(node, pod) {
			found = append(found, pod)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return found[:min(len(found), mostCandidates)]
}

// ReservedAtHome reports whether a pod's home keeps the addresses that the pod had there for long
// enough.
func ReservedAtHome(home *appsv1beta1.Home, holders []Holder, now time.Time) bool {
	return home != nil && now.Add(returnMargin).Before(home.Until.Time) &&
		slices.ContainsFunc(holders, func(h Holder) bool { return h.Node == home.NodeName && h.UID == home.UID })
}

// whole reports whether all pods that a workload wants are Ready and none ends: a further pod may go,
// as far as the workload alone decides.
func whole(in RecordInput) bool {
	if in.Workload == nil || in.Unread != "" {
		return false
	}
	ready := 0
	for i := range in.Pods {
		switch p := &in.Pods[i]; {
		case workload.Ended(p):
		case p.DeletionTimestamp != nil || !workload.Ready(p):
			return false
		default:
			ready++
		}
	}
	unknown := in.Workload.AnyName && in.Workload.Replicas == math.MaxInt32
	return unknown || ready >= int(in.Workload.Replicas)
}

// returning notes in the records since when homes can take their pods, and which pod is deleted to
// return. It returns that pod, if any, and when to decide again.
func returning(in RecordInput, records map[string]appsv1beta1.PodState) (back *corev1.Pod, again time.Duration) {
	after, pods := returnAfter(in.State), map[string]*corev1.Pod{}
	for i := range in.Pods {
		pods[in.Pods[i].Name] = &in.Pods[i]
	}
	for name, record := range records {
		if record.Home == nil {
			continue
		}
		left := record.Home.Until.Sub(in.Now)
		if after == 0 || left <= 0 {
			record.Home = nil
			records[name] = record
			continue
		}
		home := *record.Home
		node, pod := in.Nodes[home.NodeName], pods[name]
		switch {
		case pod == nil: // it is being rebuilt
		case node == nil || obstructed(node, pod):
			home.FitSince, home.ReturningAt = nil, nil
		case home.FitSince == nil:
			at := metav1.NewTime(in.Now.Truncate(time.Second))
			home.FitSince = &at
			again = sooner(again, after)
		default:
			again = sooner(again, max(home.FitSince.Add(after).Sub(in.Now), returnInterval))
		}
		if in.Homeward == name && home.FitSince != nil {
			back = pod
			if home.ReturningAt == nil {
				at := metav1.NewTime(in.Now.Truncate(time.Second))
				home.ReturningAt = &at
			}
		}
		again = sooner(again, left)
		record.Home = &home
		records[name] = record
	}
	return back, again
}

func obstructed(node *corev1.Node, pod *corev1.Pod) bool {
	reason, _ := fit.Obstacle(node, pod)
	return reason != "" || !fit.Admits(pod, node)
}

// Homeward returns the state as if a pod that is created now had never left its home, if the pod may
// return: its user asks for that, and the home can take the pod and keeps its addresses. Else it
// returns the state itself. So a pod that is rebuilt for any reason returns as well.
func Homeward(s *appsv1beta1.PersistentPodState, pod *corev1.Pod, home *corev1.Node, holders []Holder, now time.Time) *appsv1beta1.PersistentPodState {
	if home == nil || HomeNode(s, pod.Name) != home.Name || obstructed(home, pod) ||
		!ReservedAtHome(s.Status.PodStates[pod.Name].Home, holders, now.Add(-returnMargin)) {
		return s
	}
	out := s.DeepCopy()
	out.Status.PodStates[pod.Name] = atHome(out.Status.PodStates[pod.Name])
	return out
}

// mayReturn is the value of AnnotationMayReturn for a pod that is created; "" for none.
func mayReturn(s *appsv1beta1.PersistentPodState, record appsv1beta1.PodState) string {
	switch {
	case returnAfter(s) == 0:
		return ""
	case record.Home != nil:
		return record.Home.NodeName
	}
	return record.NodeName
}

// HomeNode returns the node to which a pod may return; "" for none.
func HomeNode(s *appsv1beta1.PersistentPodState, pod string) string {
	if returnAfter(s) == 0 || s.Status.PodStates[pod].Home == nil {
		return ""
	}
	return s.Status.PodStates[pod].Home.NodeName
}
