package reconcile

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/limpet-io/limpet/internal/pin"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// reasonNotRecorded is the reason of the event on a PersistentPodState whose record the API server refuses.
const reasonNotRecorded = "NotRecorded"

// reporter makes the events and counts of a Recorder.
type reporter struct {
	events     events.EventRecorder
	metrics    *Metrics
	aggregator *Aggregator
}

// rebuilds reports rebuilds. It is called once they are in the status, so that none is
// reported twice. Pods that were kept are told by the aggregator, which gathers them; a pod that was not has
// its own event at once.
func (r reporter) rebuilds(in pin.RecordInput, rebuilds []appsv1beta1.Rebuild) {
	for _, rebuild := range rebuilds {
		r.metrics.rebuilt(rebuild)
		i := slices.IndexFunc(in.Pods, func(p corev1.Pod) bool { return p.Name == rebuild.Pod })
		note := fmt.Sprintf("on node %s with %s", rebuild.To.NodeName, rebuild.To.IPs)
		before := fmt.Sprintf(", before on node %s with %s", rebuild.From.NodeName, rebuild.From.IPs)
		switch {
		case rebuild.Outcome != appsv1beta1.Kept:
			note = fmt.Sprintf("%s%s; %s: %s", note, before, rebuild.Cause, rebuild.Message)
			r.events.Eventf(&in.Pods[i], in.State, corev1.EventTypeWarning, string(rebuild.Outcome), "Rebuild", "%s", note)
			continue
		case rebuild.Message != "":
			note += before + "; " + rebuild.Message
		}
		r.aggregator.returned(in.State, &in.Pods[i], rebuild, note)
	}
}

// returning reports a pod that was deleted so that it returns to its home.
func (r reporter) returning(state *appsv1beta1.PersistentPodState, pod *corev1.Pod) {
	home := state.Status.PodStates[pod.Name].Home
	r.metrics.returns.Inc()
	r.events.Eventf(state, pod, corev1.EventTypeNormal, pin.ReasonReturning, "Place", "pod %s returns from node %s to node %s, which can take it again and reserves %s for it",
		pod.Name, pod.Spec.NodeName, home.NodeName, home.IPs)
}

// namesakes reports pods that took the reserved addresses of pods of their names, on these pods
// and on the object that its users look at.
func (r reporter) namesakes(state *appsv1beta1.PersistentPodState, pods []*corev1.Pod) {
	for _, pod := range pods {
		note := fmt.Sprintf("pod %s is not of %s %s and has %s, which was reserved for that workload's pod of this name; remedy: another name for the pod",
			pod.Name, state.Spec.TargetReference.Kind, state.Spec.TargetReference.Name, pin.Addresses(pod))
		r.events.Eventf(state, pod, corev1.EventTypeWarning, pin.ReasonNameTaken, "Record", "%s", note)
		r.events.Eventf(pod, state, corev1.EventTypeWarning, pin.ReasonNameTaken, "Record", "%s", note)
	}
}

// longestNote is how long an event's text may be.
const longestNote = 1000

// topologyUnknown reports keys that nodes lack, when that is found and when it is about others.
func (r reporter) topologyUnknown(state *appsv1beta1.PersistentPodState, before, after []metav1.Condition) {
	was := meta.FindStatusCondition(before, appsv1beta1.ConditionTopologyUnknown)
	is := meta.FindStatusCondition(after, appsv1beta1.ConditionTopologyUnknown)
	if is != nil && (was == nil || was.Message != is.Message) {
		r.events.Eventf(state, nil, corev1.EventTypeWarning, is.Reason, "Record", "%s", is.Message[:min(len(is.Message), longestNote)])
	}
}

// notRecorded reports a write that will be tried again: a user who looks at the object
// should see why it is out of date.
func (r reporter) notRecorded(state *appsv1beta1.PersistentPodState, err error) {
	r.events.Eventf(state, nil, corev1.EventTypeWarning, reasonNotRecorded, "Record", "%s", err)
}

// waiting reports a pod that waits for its required place.
func (r reporter) waiting(w pin.Wait, by runtime.Object) {
	r.events.Eventf(w.Pod, by, corev1.EventTypeWarning, w.Event(), "Place", "%s", w)
}

// released reports a pod that was released from its required place.
func (r reporter) released(w pin.Wait, by runtime.Object) {
	r.metrics.released(w.Decision)
	r.events.Eventf(by, w.Pod, corev1.EventTypeWarning, pin.ReasonReleased, "Place", "%s", w)
}
