package pin

import (
	"maps"
	"slices"
	"time"

	"github.com/limpet-io/limpet/pkg/workload"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// RecordInput is what a Recording is made of.
type RecordInput struct {
	State *appsv1beta1.PersistentPodState
	// Older names a PersistentPodState that has the same target and counts instead.
	Older string
	// Kinds are those whose pods come back under their names.
	Kinds workload.Kinds
	// Workload is the target; nil when it does not exist or is being deleted.
	Workload *workload.Desired
	// Unread is why it is not known whether the target exists; empty when it is.
	Unread string
	// Pods of the workload.
	Pods []corev1.Pod
	// Nodes of those pods and of the records that are Incomplete, by name; those missing do
	// not exist.
	Nodes map[string]*corev1.Node
	// Cluster is all nodes; it is only looked at while one of the Pods Waits.
	Cluster []*corev1.Node
	// Taken says which other pod has the recorded addresses of a pod that Loses them.
	Taken map[string]string
	// Retain returns for how long a pod's addresses stay reserved after its end.
	Retain func(*corev1.Pod) time.Duration
	// Gone says since when pods are known to be gone, as the last Recording did.
	Gone map[string]time.Time
	// Unstored is what the last Recording left out, as far as it is needed again.
	Unstored map[string]appsv1beta1.PodState
	// Now is the time of the decision.
	Now time.Time
}

// Recording is the status that a PersistentPodState should have.
type Recording struct {
	Status appsv1beta1.PersistentPodStateStatus
	// Rebuilds are what became of pods that came back since the last Recording. They are
	// in the status's counters already.
	Rebuilds []appsv1beta1.Rebuild
	// Waits are the pods that their required places do not take.
	Waits []Wait
	// Gone is since when pods with a record are known to be gone. It only helps to find
	// the cause of a lost address, so nothing but memory need hold it.
	Gone map[string]time.Time
	// Unstored are records of pods that wait for which the status has no room. They tell
	// who has been told of a wait, and since when it lasts, for as long as memory holds them.
	Unstored map[string]appsv1beta1.PodState
	// Again says after how long to decide anew though nothing changed; 0 for never.
	Again time.Duration
}

// Record decides what to remember of a workload's pods. A pod is recorded while it is
// Ready; what happens to its record after that is the retention policy's to say:
//
//	                              WhenScaled          WhenDeleted
//	pod deleted, evicted, moved   kept                kept
//	ordinal scaled away           ends                kept
//	workload gone                 ends                ends
//
// Where no policy is set it is WhenScaled with a delay: a record that ends outlives its
// pod for as long as the pod's addresses may be reserved, for a pod that is wanted again
// in that time can have them back.
func Record(in RecordInput) Recording {
	status := *in.State.Status.DeepCopy()
	status.ObservedGeneration = in.State.Generation
	setKindsInvalid(in, &status.Conditions)
	if in.Older != "" || !in.Kinds.Contains(TargetOf(in.State)) {
		return recordNothing(in, status)
	}
	if status.PodStates == nil {
		status.PodStates = map[string]appsv1beta1.PodState{}
	}
	for name, r := range in.Unstored {
		if _, stored := status.PodStates[name]; !stored {
			status.PodStates[name] = r
		}
	}
	var out Recording
	var active map[string]bool
	active, out.Rebuilds = see(in, status.PodStates)
	for name, r := range status.PodStates {
		status.PodStates[name] = completed(in.State, r, in.Nodes[r.NodeName])
	}
	status.Rebuilds = count(status.Rebuilds, out.Rebuilds)
	out.Waits, out.Again = wait(in, status.PodStates)
	setWaiting(in, out.Waits, &status.Conditions)
	if in.Unread == "" { // otherwise the records stay
		out.Again = sooner(out.Again, expire(in, active, status.PodStates))
	}
	out.Gone = gone(in, status.PodStates)
	records := status.PodStates
	var left int
	status.PodStates, left = truncate(in.State.Status.PodStates, records)
	out.Unstored = unstored(records, status.PodStates)
	meta.SetStatusCondition(&status.Conditions, condition(in, left))
	out.Status = status
	return out
}

// see records the pods that are Ready, and returns those that are there and what became of
// the ones that came back.
func see(in RecordInput, records map[string]appsv1beta1.PodState) (active map[string]bool, rebuilds []appsv1beta1.Rebuild) {
	active = map[string]bool{}
	for i := range in.Pods {
		pod := &in.Pods[i]
		if !workload.Alive(pod) {
			continue
		}
		active[pod.Name] = true
		node := in.Nodes[pod.Spec.NodeName]
		if node == nil || !workload.Ready(pod) {
			continue
		}
		before := former(in, records[pod.Name], pod)
		if rebuild := Judge(Return{
			Pod: pod, Before: before, Node: in.Nodes[before.NodeName], Astray: astray(in.State, before, node),
			Taken: in.Taken[pod.Name], Gone: in.Gone[pod.Name], Now: in.Now,
		}); rebuild != nil {
			rebuilds = append(rebuilds, *rebuild)
		}
		records[pod.Name] = record(in, before, pod, node)
	}
	return active, rebuilds
}

// recordNothing is the Recording of a state whose target's pods are another's to record,
// or that nobody looked for.
func recordNothing(in RecordInput, status appsv1beta1.PersistentPodStateStatus) Recording {
	meta.SetStatusCondition(&status.Conditions, condition(in, 0))
	if in.Older != "" {
		status.PodStates = nil
		meta.RemoveStatusCondition(&status.Conditions, appsv1beta1.ConditionWaiting)
		return Recording{Status: status}
	}
	setWaiting(in, nil, &status.Conditions)
	return Recording{Status: status, Gone: in.Gone}
}

// formers is how many lives on other nodes a record remembers.
const formers = 4

func record(in RecordInput, before appsv1beta1.PodState, pod *corev1.Pod, node *corev1.Node) appsv1beta1.PodState {
	r := appsv1beta1.PodState{
		UID:           pod.UID,
		RecordedAt:    before.RecordedAt,
		FormerUIDs:    before.FormerUIDs,
		IPs:           Addresses(pod),
		NodeName:      node.Name,
		RetainSeconds: retainSeconds(in, pod),

		NodeTopologyLabels: topology(in.State, node),
	}
	if before.UID != pod.UID || before.RecordedAt == nil {
		r.RecordedAt = &metav1.Time{Time: in.Now.Truncate(time.Second)}
	}
	if before.UID != "" && before.NodeName != node.Name {
		r.FormerUIDs = append(slices.Clone(before.FormerUIDs), before.UID)
		r.FormerUIDs = r.FormerUIDs[max(0, len(r.FormerUIDs)-formers):]
	}
	r.Annotations = annotations(in.State, before, pod)
	return r
}

// annotations are a pod's as far as they are wanted. One that it does not have is not
// wanted any more, unless nobody put it back: that a pod which was created while no webhook
// answered lacks it tells nothing.
func annotations(s *appsv1beta1.PersistentPodState, before appsv1beta1.PodState, pod *corev1.Pod) map[string]string {
	var values map[string]string
	unplanned := pod.Annotations[appsv1beta1.AnnotationInjected] == ""
	for _, a := range s.Spec.PersistentPodAnnotations {
		value, ok := pod.Annotations[a.Key]
		if !ok && unplanned {
			value, ok = before.Annotations[a.Key]
		}
		if ok {
			set(&values, a.Key, value)
		}
	}
	return values
}

func retainSeconds(in RecordInput, pod *corev1.Pod) int32 {
	return int32(min(in.Retain(pod), 1<<31*time.Second-time.Second) / time.Second)
}

// Keys returns the node label keys that a state wants recorded.
func Keys(s *appsv1beta1.PersistentPodState) []string {
	var keys []string
	if term := s.Spec.RequiredPersistentTopology; term != nil {
		keys = append(keys, term.Keys...)
	}
	for _, item := range s.Spec.PreferredPersistentTopology {
		keys = append(keys, item.Preference.Keys...)
	}
	return distinct(keys)
}

// Incomplete tells whether a record does not have a key that a state wants, as it may have
// come to want it after the pod was Ready.
func Incomplete(s *appsv1beta1.PersistentPodState, record appsv1beta1.PodState) bool {
	return record.NodeName != "" && slices.ContainsFunc(Keys(s), func(key string) bool {
		_, recorded := record.NodeTopologyLabels[key]
		return !recorded
	})
}

// completed is a record with the keys that it does not have from its node, while that
// exists. What was recorded stays: the node may have been given other labels since.
func completed(s *appsv1beta1.PersistentPodState, record appsv1beta1.PodState, node *corev1.Node) appsv1beta1.PodState {
	if node == nil || !Incomplete(s, record) {
		return record
	}
	record.NodeTopologyLabels = maps.Clone(record.NodeTopologyLabels)
	for key, value := range topology(s, node) {
		if _, recorded := record.NodeTopologyLabels[key]; !recorded {
			set(&record.NodeTopologyLabels, key, value)
		}
	}
	return record
}

func set(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}
