package console

import (
	"maps"
	"slices"
	"time"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// lostPod is a pod that moved or lost its addresses at its last rebuild.
type lostPod struct {
	Namespace string              `json:"namespace"`
	Pod       string              `json:"pod"`
	Outcome   appsv1beta1.Outcome `json:"outcome"`
	Cause     string              `json:"cause"`
	Message   string              `json:"message,omitempty"`
	From      appsv1beta1.Place   `json:"from"`
	To        appsv1beta1.Place   `json:"to"`
	Time      time.Time           `json:"time"`
	Remedy    string              `json:"remedy,omitempty"`
}

// LostReport lists such pods, the newest first.
type LostReport struct {
	Pods   []lostPod      `json:"pods"`
	Unread []facts.Unread `json:"unread,omitempty"`
}

// Lost lists the pods of all PersistentPodStates that were read.
func Lost(f *facts.Facts) LostReport {
	report := LostReport{Pods: []lostPod{}, Unread: f.Unread}
	for i := range f.States {
		for _, r := range lastRebuilds(&f.States[i]) {
			if r.Outcome != appsv1beta1.Kept {
				report.Pods = append(report.Pods, lostPod{
					f.States[i].Namespace, r.Pod, r.Outcome, r.Cause, r.Message, r.From, r.To, r.Time.Time, remedies[r.Cause],
				})
			}
		}
	}
	slices.SortStableFunc(report.Pods, func(a, b lostPod) int { return b.Time.Compare(a.Time) })
	return report
}

// lastRebuilds returns the last rebuild of each pod of a workload. The last one of the workload has a message.
func lastRebuilds(s *appsv1beta1.PersistentPodState) (all []*appsv1beta1.Rebuild) {
	pods := slices.Sorted(maps.Keys(s.Status.PodStates))
	if n := s.Status.Rebuilds; n != nil && n.Last != nil && !slices.Contains(pods, n.Last.Pod) {
		pods = append(pods, n.Last.Pod)
	}
	for _, pod := range pods {
		if r := lastOf(s, pod); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// Remedies for what several causes have in common.
const (
	mayWait   = "give the workload a required topology, so that its pods wait for their node, or limpet.dev/retention: follow, so that the address goes along"
	moreRoom  = "give the node more addresses, or ask for shorter reservations: kubectl get nodeippools"
	lookAtLog = "read the log of limpet-ipam on the node: limpet-ipam check, /var/log/limpet/ipam.log"
)

// remedies say what keeps the next pod from the same loss, by cause.
var remedies = map[string]string{
	pin.ReasonNodeGone: mayWait, pin.ReasonNodeNotReady: mayWait, pin.ReasonNodeCordoned: mayWait, pin.ReasonNodeTainted: mayWait,
	pin.ReasonNodeOutOfIPs: moreRoom, pin.CauseReclaimed: moreRoom,
	pin.CauseForced: lookAtLog, pin.CauseNotHeld: lookAtLog,
	pin.CauseStateReplaced:    "keep /var/lib/cni/limpet when a node is installed again",
	pin.CauseNodeRefused:      "give the pods a PriorityClass, or the node room for them",
	pin.ReasonPodElsewhere:    "correct the node selector or the affinity of the pod",
	pin.ReasonSubsetElsewhere: "give the subset of the WorkloadSpread the recorded node",
	pin.CauseLabelMissing:     "label the node with each key of the topology",
	pin.CauseSameTopology:     "use kubernetes.io/hostname as topology",
	pin.CauseReleased:         "nothing, if it was meant: limpet.dev/leave-on or leave-after let the pod go",
	pin.CauseRecalled:         "nothing: another node had the addresses of a later pod",
	pin.CauseNotPinned:        "run two replicas of limpet-controller on two nodes: kubectl limpet status",
	pin.CauseExpired:          "ask for a longer time with limpet.dev/keep",
	pin.CauseRangeChanged:     "keep the ranges of the node: the address is in none of them",
	pin.CauseNameTaken:        "rename the other pod of that name",
}
