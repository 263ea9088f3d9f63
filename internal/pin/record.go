package pin

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// RecordInput are the facts from which a Recording is made.
type RecordInput struct {
	State *appsv1beta1.PersistentPodState
	// Older names a PersistentPodState that has the same target and counts instead.
	Older string
	// Kinds are the kinds of workload whose pods come back under their names.
	Kinds workload.Kinds
	// Workload is the target; nil when it does not exist or is being deleted.
	Workload *workload.Desired
	// Unread says why it is unknown whether the target exists; empty when it is known.
	Unread string
	// Pods of the workload.
	Pods []corev1.Pod
	// Nodes of the pods and of Incomplete records, by name. A missing node does not exist.
	Nodes map[string]*corev1.Node
	// Cluster is all nodes; it is needed only while one of the Pods Waits.
	Cluster []*corev1.Node
	// Renewed says when the API server last stored a renewal of the lease of a node, for nodes of Stranded pods.
	Renewed map[string]time.Time
	// Taken says which other pod has the recorded addresses of a pod that Loses them.
	Taken map[string]types.NamespacedName
	// StateSince says when the state of a node was begun, for nodes of pods that Lose their addresses.
	StateSince map[string]time.Time
	// Retain returns for how long a pod's addresses stay reserved after its end.
	Retain func(*corev1.Pod) time.Duration
	// Namesakes are the pods of recorded names that are not of the workload and NamesakeHolds.
	Namesakes map[string]*corev1.Pod
	// NameTaken says which namesake had the addresses of which pod, as the last Recording did.
	NameTaken map[string]types.UID
	// GivenUp are the reservations that users gave up since the last Recording.
	GivenUp []GivenUp
	// Homeward is the pod of ReturnCandidates whose home has room for it and its addresses; "" for
	// none.
	Homeward string
	// Unstored is what the last Recording left out and needs again.
	Unstored map[string]appsv1beta1.PodState
	// Now is the time of the decision.
	Now time.Time
}

// Recording is the status that a PersistentPodState should have.
type Recording struct {
	Status appsv1beta1.PersistentPodStateStatus
	// Rebuilds are the pods that came back since the last Recording. The counters of the
	// status contain them already.
	Rebuilds []appsv1beta1.Rebuild
	// Waits are the pods that their required places do not take.
	Waits []Wait
	// NameTaken is which namesakes took the addresses of pods that are not back yet. It only helps to
	// find the cause of a lost address, so that it need not be stored.
	NameTaken map[string]types.UID
	// Namesakes are those that were not known before.
	Namesakes []*corev1.Pod
	// Over tells that the state is deleted: it was generated, and nothing is left of its workload.
	Over bool
	// Returning is the pod that is deleted so that it returns to its home; nil for none.
	Returning *corev1.Pod
	// Unstored are records of waiting pods for which the status has no room. Until the next
	// restart they tell since when a pod waits, and that its wait was reported.
	Unstored map[string]appsv1beta1.PodState
	// Again says when to decide again although nothing changed; 0 for never.
	Again time.Duration
}

// Record decides what to remember of a workload's pods. A pod is recorded while it is
// Ready. The retention policy decides what happens to its record afterwards:
//
//	                              WhenScaled          WhenDeleted
//	pod deleted, evicted, moved   kept                kept
//	ordinal scaled away           ends                kept
//	workload gone                 ends                ends
//
// Without a policy, WhenScaled applies with a delay: the record outlives its pod for as
// long as the addresses may be reserved, since a pod that is wanted again in that time can
// have them back.
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
			r.Annotations = named(in.State, r.Annotations)
			status.PodStates[name] = r
		}
	}
	giveUp(in.GivenUp, status.PodStates)
	var out Recording
	var active, ready map[string]bool
	active, ready, out.Rebuilds = see(in, status.PodStates)
	forget(in, status.PodStates)
	for name, r := range status.PodStates {
		status.PodStates[name] = completed(in.State, r, in.Nodes[r.NodeName])
	}
	status.Rebuilds = count(status.Rebuilds, out.Rebuilds)
	out.Waits, out.Again = wait(in, status.PodStates)
	setWaiting(in, out.Waits, &status.Conditions)
	setTopologyUnknown(in, status.PodStates, &status.Conditions)
	var look time.Duration
	out.Returning, look = returning(in, status.PodStates)
	out.Again = sooner(out.Again, look)
	if in.Unread == "" { // otherwise the records stay
		out.Again = sooner(out.Again, expire(in, active, status.PodStates))
	}
	noteEnds(in, status.PodStates)
	out.NameTaken, out.Namesakes = namesakes(in, status.PodStates, ready)
	records := status.PodStates
	var left int
	status.PodStates, left = truncate(in.State.Status.PodStates, records)
	out.Unstored = unstored(records, status.PodStates)
	setCondition(in, left, &status.Conditions)
	out.Over, look = outlives(in, &status)
	out.Again = sooner(out.Again, look)
	out.Status = status
	return out
}

// see records the pods that are Ready. It returns the pods that exist, those that are Ready, and
// the rebuilds.
func see(in RecordInput, records map[string]appsv1beta1.PodState) (active, ready map[string]bool, rebuilds []appsv1beta1.Rebuild) {
	active, ready = map[string]bool{}, map[string]bool{}
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
		ready[pod.Name] = true
		before := former(in, records[pod.Name], pod)
		judged := RebuildInput{
			Pod: pod, Before: before, Node: in.Nodes[before.NodeName], OutsideRequired: outsideRequired(in.State, before, node),
			InPlace: inPlace(in.State, before, node), Taken: in.Taken[pod.Name], Gone: endOf(before, pod, in.Now), Now: in.Now,
			StateSince: in.StateSince[before.NodeName],
		}
		_, judged.NameTaken = in.NameTaken[pod.Name]
		judged.Unrecorded, judged.UnrecordedRequired = unrecorded(in.State, before)
		if home := before.Home; home != nil && home.NodeName == node.Name && before.UID != pod.UID {
			judged.Before, judged.Node = atHome(before), node
		}
		rebuild := Judge(judged)
		r := record(in, before, pod, node)
		r.Outcome, r.Cause, r.From = before.Outcome, before.Cause, before.From
		if rebuild != nil {
			rebuilds = append(rebuilds, *rebuild)
			if r.Outcome, r.Cause, r.From = rebuild.Outcome, rebuild.Cause, nil; r.Outcome != appsv1beta1.Kept {
				r.From = &rebuild.From
			}
		}
		r.Home = homeOf(in, before, pod, rebuild)
		records[pod.Name] = r
	}
	return active, ready, rebuilds
}

// recordNothing is the Recording of a state that is not in force, or whose kind of target is
// not supported.
func recordNothing(in RecordInput, status appsv1beta1.PersistentPodStateStatus) Recording {
	setCondition(in, 0, &status.Conditions)
	meta.RemoveStatusCondition(&status.Conditions, appsv1beta1.ConditionTopologyUnknown)
	if in.Older != "" {
		status.PodStates = nil
		meta.RemoveStatusCondition(&status.Conditions, appsv1beta1.ConditionWaiting)
	} else {
		setWaiting(in, nil, &status.Conditions)
	}
	over, again := outlives(in, &status)
	return Recording{Status: status, Over: over, Again: again}
}

// maxFormerUIDs is how many lives on other nodes a record remembers.
const maxFormerUIDs = 4

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
	if before.UID == pod.UID && before.IPs == r.IPs { // a late cache shows a pod that has ended
		r.GivenUpUID = before.GivenUpUID
	}
	if before.UID != pod.UID || before.RecordedAt == nil {
		r.RecordedAt = &metav1.Time{Time: in.Now.Truncate(time.Second)}
	}
	if before.UID != "" && before.NodeName != node.Name {
		r.FormerUIDs = append(slices.Clone(before.FormerUIDs), before.UID)
		r.FormerUIDs = r.FormerUIDs[max(0, len(r.FormerUIDs)-maxFormerUIDs):]
	}
	r.Annotations = annotations(in.State, before, pod)
	return r
}

// annotations returns the wanted ones of a pod's annotations. An annotation that the pod
// lacks is dropped, unless no webhook answered when the pod was created: then none could
// put it back, and the recorded value stays.
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

// named returns the annotations that the state names at present. A policy refuses to store
// others again, and with them all records of the state.
func named(s *appsv1beta1.PersistentPodState, values map[string]string) map[string]string {
	var out map[string]string
	for _, a := range s.Spec.PersistentPodAnnotations {
		if value, ok := values[a.Key]; ok {
			set(&out, a.Key, value)
		}
	}
	return out
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

// Incomplete reports whether a record lacks a key that the state wants. The state may have
// begun to want the key after the pod was Ready.
func Incomplete(s *appsv1beta1.PersistentPodState, record appsv1beta1.PodState) bool {
	return record.NodeName != "" && slices.ContainsFunc(Keys(s), func(key string) bool {
		_, recorded := record.NodeTopologyLabels[key]
		return !recorded
	})
}

// completed returns a record with its missing keys taken from the node, while that exists.
// Recorded values stay: the labels of the node may have changed since.
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
