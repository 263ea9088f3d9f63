package pin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Wait is a pod that the scheduler does not place, because its required place does not take
// it; or a pod whose node fell silent before it started the pod. To release the pod it must be
// created again, since its affinity and its node cannot be changed.
type Wait struct {
	Pod   *corev1.Pod
	Place labels.Set
	// Changed tells that the pod did not wait before, or waited for another reason.
	Changed  bool
	stale    bool // the scheduler's verdict is older than the state of the nodes
	Decision PlaceDecision
}

// Reasons of the events that tell of a Wait.
const (
	ReasonWaiting  = "WaitingForPlace" // on the pod; NotStarted on a pod that has a node
	ReasonReleased = "Released"        // on the PersistentPodState
)

// maxQuote is the longest part of the scheduler's message that an event quotes.
const maxQuote = 500

// maxNote is the longest note of an event that the API server takes.
const maxNote = 1024

// String says what the pod waits for and what would help; or that it waits no longer. It fits into an event.
func (w Wait) String() string {
	text := w.text()
	return text[:min(len(text), maxNote)]
}

func (w Wait) text() string {
	said := ""
	if !w.stale && (w.Decision.Reason == CauseNodeRefused || w.Decision.Reason == CauseConstraint) {
		said = refusal(w.Pod).Message
		said = " (" + said[:min(len(said), maxQuote)] + ")"
	}
	switch {
	case w.Stranded() && w.Decision.Verdict == LetGo:
		return fmt.Sprintf("pod %s was deleted by force: %s", w.Pod.Name, w.Decision.Message)
	case w.Stranded():
		return fmt.Sprintf("pod cannot start: %s; remedy: %s", w.Decision.Message, w.Decision.Remedy)
	case w.Decision.Verdict == LetGo:
		return fmt.Sprintf("pod %s was released from %s: %s%s", w.Pod.Name, w.Place, w.Decision.Message, said)
	}
	return fmt.Sprintf("pod must go to %s: %s%s; remedy: %s", w.Place, w.Decision.Message, said, w.Decision.Remedy)
}

// Stranded reports whether the pod waits for a node that it is bound to.
func (w Wait) Stranded() bool { return w.Decision.Reason == ReasonNotStarted }

// Event is the reason of the event that tells of a pod that waits.
func (w Wait) Event() string {
	if w.Stranded() {
		return ReasonNotStarted
	}
	return ReasonWaiting
}

// line is how a condition tells of a pod that waits.
func (w Wait) line() string {
	if w.Stranded() {
		return fmt.Sprintf("%s: %s; remedy: %s", w.Pod.Name, w.Decision.Message, w.Decision.Remedy)
	}
	return fmt.Sprintf("%s for %s: %s; remedy: %s", w.Pod.Name, w.Place, w.Decision.Message, w.Decision.Remedy)
}

// Waits reports whether the scheduler found no node for a pod that has a required place.
func Waits(pod *corev1.Pod) bool {
	return workload.Alive(pod) && pod.Spec.NodeName == "" && pod.Annotations[appsv1beta1.AnnotationInjected] != "" &&
		placeOf(pod) != nil && refusal(pod) != nil
}

// refusal returns the scheduler's condition on a pod that it cannot place; nil for others.
func refusal(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c
		}
	}
	return nil
}

// wait notes in the records which pods wait, since when, and which are released.
func wait(in RecordInput, records map[string]appsv1beta1.PodState) (waits []Wait, again time.Duration) {
	for i := range in.Pods {
		pod := &in.Pods[i]
		if Stranded(pod, in.Nodes[pod.Spec.NodeName]) {
			w := waitStranded(in, pod, records)
			waits, again = append(waits, w), sooner(again, w.Decision.Again)
			continue
		}
		if workload.Alive(pod) && pod.Spec.NodeName != "" {
			endWait(records, pod.Name)
		}
		if !Waits(pod) {
			continue
		}
		record := records[pod.Name]
		if record.NodeName == "" {
			record = recalled(in, pod, record)
		}
		w := Wait{Pod: pod, Place: placeOf(pod)}
		place := PlaceInput{
			Pod: pod, Place: w.Place, State: in.State, Record: record,
			Refusal: refusal(pod).Message, Nodes: in.Cluster, Now: in.Now,
			Restored: record.NodeName == "" && in.Workload != nil && !in.Workload.Created.IsZero() && !pod.CreationTimestamp.After(in.Workload.Created),
		}
		w.Decision, w.stale = PlanPlace(place), outdated(place)
		if w.stale && w.Decision.Reason == CauseNodeRefused && record.Waiting != nil {
			w.Decision.Reason = record.Waiting.Reason // the scheduler will say more in a moment
		}
		w.Changed = record.Waiting == nil || record.Waiting.Reason != w.Decision.Reason
		waits = append(waits, w)
		again = sooner(again, w.Decision.Again)
		if record = noted(record, w, in.Now); record.NodeName != "" || record.Waiting != nil {
			records[pod.Name] = record
		}
	}
	slices.SortFunc(waits, func(a, b Wait) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
	return waits, again
}

// waitStranded notes in the records that a stranded pod waits. The next pod is released from its
// required place only if its user releases pods of a silent node.
func waitStranded(in RecordInput, pod *corev1.Pod, records map[string]appsv1beta1.PodState) Wait {
	record := records[pod.Name]
	decision, free := planStranded(in, pod, record)
	w := Wait{Pod: pod, Place: placeOf(pod), Decision: decision}
	w.Changed = record.Waiting == nil || record.Waiting.Reason != w.Decision.Reason
	next := noted(record, w, in.Now)
	if !free {
		next.ReleasedAt = record.ReleasedAt
	}
	records[pod.Name] = next
	return w
}

// endWait notes that a pod has a node. A record of nothing but the wait is removed.
func endWait(records map[string]appsv1beta1.PodState, pod string) {
	record := records[pod]
	if record.Waiting == nil {
		return
	}
	record.Waiting = nil
	records[pod] = record
	if record.NodeName == "" && record.ReleasedAt == nil {
		delete(records, pod)
	}
}

// recalled returns the record of a pod that waits although none is recorded: the webhook
// knew its place by its addresses. That place is recorded now, so that the wait does not end
// with the reservation. A place that only the pod knows, because its PersistentPodState was
// re-created, is not recorded; since when the pod waits is.
func recalled(in RecordInput, pod *corev1.Pod, record appsv1beta1.PodState) appsv1beta1.PodState {
	if record = Remembered(record, pod); record.NodeName == "" {
		return record
	}
	record.RecordedAt, record.RetainSeconds = &pod.CreationTimestamp, retainSeconds(in, pod)
	for _, node := range in.Cluster {
		if node.Name == record.NodeName {
			record.NodeTopologyLabels = topology(in.State, node)
		}
	}
	return record
}

// noted returns the record of a pod that waits. A pod that is released because another place
// is required now then waits for that place.
func noted(record appsv1beta1.PodState, w Wait, now time.Time) appsv1beta1.PodState {
	if w.Decision.Reason == ReasonNotRequired {
		record.Waiting = nil
		return record
	}
	at := metav1.NewTime(now.Truncate(time.Second))
	next := appsv1beta1.Waiting{Since: at, Reason: w.Decision.Reason, ReasonSince: &at}
	if before := record.Waiting; before != nil {
		next.Since = before.Since
		if before.Reason == next.Reason && before.ReasonSince != nil {
			next.ReasonSince = before.ReasonSince
		}
	}
	record.Waiting = &next
	if w.Decision.Verdict == LetGo && record.ReleasedAt == nil {
		record.ReleasedAt = &at
	}
	return record
}

// sooner returns the shorter of two delays, where 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// maxNamed is how many waiting pods a condition names.
const maxNamed = 3

// setWaiting sets ConditionWaiting, on states that require a place.
func setWaiting(in RecordInput, waits []Wait, conditions *[]metav1.Condition) {
	if in.State.Spec.RequiredPersistentTopology == nil && len(waits) == 0 {
		meta.RemoveStatusCondition(conditions, appsv1beta1.ConditionWaiting)
		return
	}
	c := metav1.Condition{
		Type:               appsv1beta1.ConditionWaiting,
		Status:             metav1.ConditionFalse,
		Reason:             appsv1beta1.ReasonNoneWaits,
		Message:            "no pod waits for its required place",
		ObservedGeneration: in.State.Generation,
		LastTransitionTime: metav1.NewTime(in.Now),
	}
	if !in.Kinds.Contains(TargetOf(in.State)) {
		c.Status, c.Reason = metav1.ConditionUnknown, appsv1beta1.ReasonTargetUnsupported
		c.Message = "pods of a kind that is not supported are not watched"
	}
	waits = slices.DeleteFunc(slices.Clone(waits), func(w Wait) bool { return w.Decision.Verdict == LetGo })
	if len(waits) > 0 {
		c.Status, c.Reason = metav1.ConditionTrue, waits[0].Decision.Reason
		lines := make([]string, 0, maxNamed)
		for _, w := range waits[:min(len(waits), maxNamed)] {
			lines = append(lines, w.line())
		}
		c.Message = fmt.Sprintf("%d wait, %s", len(waits), strings.Join(lines, "; "))
	}
	meta.SetStatusCondition(conditions, c)
}
