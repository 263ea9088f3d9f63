package console

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Explanation answers one question about a pod.
type Explanation struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Question  string `json:"question"`
	Answer    string `json:"answer"`
	// Because are the facts that the answer rests on.
	Because []string `json:"because,omitempty"`
	// Remedy is what would change the answer.
	Remedy string         `json:"remedy,omitempty"`
	Unread []facts.Unread `json:"unread,omitempty"`
}

func (e *Explanation) because(format string, args ...any) {
	e.Because = append(e.Because, fmt.Sprintf(format, args...))
}

// Explained answers all questions about a pod.
type Explained struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Eviction is what the API server answered; unset for a pod that does not exist, and without the right to ask.
	Eviction *EvictionReport `json:"eviction,omitempty"`
	Answers  []Explanation   `json:"answers"`
	Unread   []facts.Unread  `json:"unread,omitempty"`
}

// Explain answers all questions about a pod but that of its eviction. A pod that is gone has addresses alone.
func Explain(f *facts.Facts, namespace, name string) (Explained, error) {
	r := Explained{Namespace: namespace, Pod: name, Unread: f.Unread}
	address, err := Address(f, namespace, name)
	if err != nil {
		return r, err
	}
	if pod := f.Pod(namespace, name); pod != nil {
		r.Answers = append(r.Answers, Placement(f, pod), Pending(f, pod))
	}
	r.Answers = append(r.Answers, address)
	for i := range r.Answers {
		r.Answers[i].Unread = nil // said once
	}
	return r, nil
}

// Placement says where a pod would start if it were rebuilt now.
func Placement(f *facts.Facts, pod *corev1.Pod) Explanation {
	e := Explanation{Namespace: pod.Namespace, Pod: pod.Name, Question: "placement", Answer: next(f, pod), Unread: f.Unread}
	unknown := unknownHome(f, pod) != ""
	if d := home(f, pod, nil); d.Reason != pin.ReasonPinned && !unknown {
		e.because("reason: %s", d.Reason)
	}
	subset := subsetOf(f, pod)
	if subset != "" {
		e.because("placed by %s", subset)
	}
	lent(&e, f, pod)
	for _, k := range keptFor(f, pod.Namespace, reservation.OwnerName(pod.Name, pod.Annotations)) {
		e.because("node %s holds %s for it (%s)", k.Status.Node, k.Status.IPs, k.Status.State)
	}
	state := stateOf(f, pod)
	switch {
	case owner(pod) != "", state == nil && unknown:
		return e
	case state == nil:
		e.because("no PersistentPodState has its workload as target")
		if owner, owned := workload.OwnerOf(pod); !owned || !(workload.Kinds{}).Contains(owner) {
			return e // nothing brings the pods of such a workload back
		}
		e.Remedy = "annotate the workload with " + appsv1beta1.AnnotationAutoGenerate + "=true and a topology"
		return e
	}
	recorded := pin.RecordedNode(state, pod.Name)
	if recorded == "" {
		e.because("PersistentPodState %s has no record of it: it was never Ready under this name", state.Name)
		return e
	}
	e.because("PersistentPodState %s records node %s", state.Name, recorded)
	if reason, message := fit.Obstacle(f.Node(recorded), again(pod)); reason != "" && !unknown {
		e.because("node %s %s (%s)", recorded, message, reason)
	}
	return e
}

// gates says what opens each scheduling gate that Limpet sets.
var gates = map[string]string{
	loan.Gate:                "limpet-controller opens it when the home of its address can take the pod, or has lent the address",
	pin.Gate:                 "limpet-controller opens it when it has nominated the recorded node, within seconds",
	appsv1beta1.GateScaleOut: "limpet-controller opens it when enough pods of the StatefulSet are Ready",
}

// Pending says why a pod has no node, or does not run on it.
func Pending(f *facts.Facts, pod *corev1.Pod) Explanation {
	e := Explanation{Namespace: pod.Namespace, Pod: pod.Name, Question: "pending", Unread: f.Unread}
	for _, gate := range pod.Spec.SchedulingGates {
		meaning, ours := gates[gate.Name]
		if !ours {
			meaning = "another program set it"
		}
		e.because("scheduling gate %s: %s", gate.Name, meaning)
	}
	scheduled := conditionOf(pod, corev1.PodScheduled)
	switch {
	case pod.Status.Phase != corev1.PodPending:
		e.Answer = "it is not Pending: " + PodState(pod)
		if pod.DeletionTimestamp != nil {
			unreachable(&e, f, pod)
		}
		return e
	case len(pod.Spec.SchedulingGates) > 0:
		e.Answer = "it waits for a scheduling gate"
	case pod.Spec.NodeName != "":
		e.Answer = "it has node " + pod.Spec.NodeName + " and does not run yet: " + state(pod)
		unreachable(&e, f, pod)
	case scheduled != nil && scheduled.Status == corev1.ConditionFalse:
		e.Answer = "no node takes it"
		e.because("the scheduler: %s", scheduled.Message)
	default:
		e.Answer = "the scheduler has not looked at it yet"
	}
	if subset := subsetOf(f, pod); subset != "" {
		e.because("placed by %s", subset)
	}
	waits(&e, stateOf(f, pod), pod)
	lent(&e, f, pod)
	return e
}

// unreachable adds that the node of a pod does not answer.
func unreachable(e *Explanation, f *facts.Facts, pod *corev1.Pod) {
	reason, message := fit.Obstacle(f.Node(pod.Spec.NodeName), pod)
	if !read(f, facts.Nodes) || reason != fit.NodeNotReady && reason != fit.NodeGone {
		return
	}
	e.because("node %s %s", pod.Spec.NodeName, message)
	if reason == fit.NodeNotReady {
		e.Remedy = fmt.Sprintf("bring the node back; if it is dead, %s", fit.SayDead(pod.Spec.NodeName))
	}
}

// waits adds that a pod waits for its required place.
func waits(e *Explanation, state *appsv1beta1.PersistentPodState, pod *corev1.Pod) {
	if state == nil || pod.Annotations[podpatch.AnnotationPlace] == "" {
		return
	}
	e.because("PersistentPodState %s requires %s of its node", state.Name, pod.Annotations[podpatch.AnnotationPlace])
	if w := state.Status.PodStates[pod.Name].Waiting; w != nil {
		e.because("it waits since %s: %s", w.Since.UTC().Format("2006-01-02 15:04:05"), w.Reason)
	}
	for _, c := range state.Status.Conditions {
		if c.Type == appsv1beta1.ConditionWaiting && c.Status == metav1.ConditionTrue {
			e.Remedy = c.Message
		}
	}
}

// Address says what became of the addresses of a pod name.
func Address(f *facts.Facts, namespace, name string) (Explanation, error) {
	e := Explanation{Namespace: namespace, Pod: name, Question: "address", Unread: f.Unread}
	h, err := History(f, namespace, name)
	if err != nil {
		return e, err
	}
	pod := f.Pod(namespace, name)
	switch {
	case h.Last != nil && h.Last.Outcome == appsv1beta1.Kept:
		e.Answer = "kept: " + h.IPs
	case h.Last != nil:
		e.Answer = fmt.Sprintf("%s: %s → %s", strings.ToLower(string(h.Last.Outcome)), cmp.Or(h.Last.From.IPs, "none"), cmp.Or(h.Last.To.IPs, "none"))
		e.because("%s", strings.TrimSuffix(h.Last.Cause+": "+h.Last.Message, ": "))
	case pod != nil:
		e.Answer = "it has " + cmp.Or(h.IPs, "none") + "; no rebuild of it is recorded"
	case !read(f, facts.Pods):
		e.Answer = f.Unknown(facts.Pods)
	default:
		e.Answer = "there is no such pod now"
	}
	for _, k := range h.Held {
		e.because("node %s holds %s in network %s (%s)", k.Node, k.IPs, k.Network, k.State)
	}
	if pod != nil {
		asked(&e, f, pod)
		lent(&e, f, pod)
	}
	return e, nil
}

// asked adds for how long a pod asks to keep its addresses.
func asked(e *Explanation, f *facts.Facts, pod *corev1.Pod) {
	request, warnings := reservation.ParseRetentionRequest(pod.Annotations, longest)
	owner, owned := workload.OwnerOf(pod)
	switch {
	case owned && owner.Unstable() && reservation.OwnerName("", pod.Annotations) == "":
		e.because("pods of a %s get new names, and keep no address", owner.Kind)
	case !reservation.Asks(pod.Annotations) && pod.Annotations[pin.AnnotationKeepFrom] == pin.KeepFromNone:
		e.because("its namespace asks for a reservation, and nothing is kept: the workload says \"0\", or a value is wrong")
		e.Remedy = "kubectl limpet status -n " + e.Namespace + "; correct " + reservation.KeepAnnotation + " of the namespace or the workload"
	case !reservation.Asks(pod.Annotations):
		e.because("the pod asks for no reservation")
		e.Remedy = "annotate the workload or its namespace with " + reservation.KeepAnnotation
	case request.Retain == 0 && len(warnings) > 0:
		e.because("%s", strings.Join(warnings, "; "))
	case request.Mode == reservation.Follow:
		follows(e, f, pod)
	case pod.Annotations[pin.AnnotationKeepFrom] != "":
		e.because("a reservation of %s is asked for by the annotation of its %s", request.Retain, pod.Annotations[pin.AnnotationKeepFrom])
	default:
		e.because("the pod asks for a reservation of %s", request.Retain)
	}
}

// follows adds whether the address of a pod that asks for it follows it.
func follows(e *Explanation, f *facts.Facts, pod *corev1.Pod) {
	minutes, why := map[string]int32{}, ""
	for _, k := range keptFor(f, pod.Namespace, reservation.OwnerName(pod.Name, pod.Annotations)) {
		if k.Status.Node == pod.Spec.NodeName && workload.Shows(pod, k.Status.IPs) {
			minutes[k.Status.Network] = k.Status.RetainMinutes
		}
	}
	if len(pod.Status.PodIPs) > 0 && read(f, facts.Kept) {
		why = reservation.WhyPreferred(pod.Spec.NodeName, minutes)
	}
	if why == "" {
		e.because("the pod asks that its address follows it to other nodes")
		return
	}
	e.because("the pod asks that its address follows it, which means preferred: %s", why)
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
