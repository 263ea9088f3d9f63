package budget

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Times of a pod that is out of service.
const (
	// unasked is how long after twice its time a pod goes back into service if no request came for it.
	unasked = 30 * time.Second
	// mostSkew is how far the clocks of two replicas may differ. A time that is later was not written by one of them.
	mostSkew = 5 * time.Second
	// longestSleep is the longest time for which a client library is told to sleep without a word to its user.
	longestSleep = 30 * time.Second
)

// Reasons of the condition limpet.dev/in-service. The policy in deploy/policies knows ReasonFollows: the leader may delete
// such a pod.
const (
	ReasonInService = "InService"
	ReasonRepeat    = "RequestIsRepeated" // the client asks again
	ReasonFollows   = "DeletionFollows"   // the leader deletes the pod when its time has passed
	ReasonUnasked   = "NotAskedAgain"     // the pod is back in service
)

// Gated reports whether a pod is Ready only while it has the condition limpet.dev/in-service. No other pod can be taken
// out of service.
func Gated(pod *corev1.Pod) bool {
	return slices.Contains(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: policyv1beta1.ConditionInService})
}

// Service returns the condition limpet.dev/in-service of a pod; nil for none.
func Service(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == policyv1beta1.ConditionInService {
			return c
		}
	}
	return nil
}

// OutOfService reports whether a pod was taken out of service. Its kubelet may not have seen that yet.
func OutOfService(pod *corev1.Pod) bool {
	c := Service(pod)
	return c != nil && c.Status == corev1.ConditionFalse && Gated(pod)
}

// Departure is a pod that its budgets let go.
type Departure struct {
	Now time.Time
	// Pod as the API server has it.
	Pod    *corev1.Pod
	Vector Vector
	By     string
	// Forced: the client waits for no grace period.
	Forced bool
	// Once: Kubernetes would refuse the request when it is repeated.
	Once bool
}

// Hold says whether a pod is out of service first.
type Hold struct {
	// Left is how long the pod has to wait; 0 lets it go.
	Left time.Duration
	// Turn is the condition to write; nil for none.
	Turn *corev1.PodCondition
	// Message is for the client, and RetryAfter the seconds after which its library repeats the request; 0 where the
	// client itself is told.
	Message    string
	RetryAfter int32
}

// Plan decides whether a pod that may go has been out of service for its time. A pod that is not Ready has no clients.
func (d Departure) Plan() Hold {
	wait, err := workload.DrainOf(d.Pod.Annotations)
	if err != nil || wait == 0 || d.Forced || !d.waits() || !workload.Alive(d.Pod) || !Gated(d.Pod) {
		return Hold{}
	}
	h, follows, c := Hold{Left: wait}, d.Once || d.byWorkload(), Service(d.Pod)
	switch out := OutOfService(d.Pod); {
	case out && !c.LastTransitionTime.IsZero() && c.LastTransitionTime.Sub(d.Now) <= mostSkew:
		if h.Left = min(wait, wait-d.Now.Sub(c.LastTransitionTime.Time)); h.Left <= 0 {
			return Hold{}
		}
		if follows && c.Reason != ReasonFollows {
			h.Turn = c.DeepCopy()
			h.Turn.Reason = ReasonFollows
		}
		follows = follows || c.Reason == ReasonFollows
	case !out && (!workload.Ready(d.Pod) || d.Pod.Status.Phase != corev1.PodRunning):
		return Hold{}
	default:
		reason := ReasonRepeat
		if follows {
			reason = ReasonFollows
		}
		h.Turn = turned(corev1.ConditionFalse, reason, fmt.Sprintf("for %s: %s by %s", wait, d.Vector, user(d.By)), d.Now)
	}
	d.tell(&h, follows)
	return h
}

// tell says to the client how long the pod waits, and who ends it.
func (d Departure) tell(h *Hold, follows bool) {
	seconds := int32((h.Left + time.Second - 1) / time.Second)
	ends := "may go in %d s: ask again then"
	switch {
	case follows:
		ends = "is deleted in %d s"
	case h.Left <= longestSleep && !strings.HasPrefix(d.By, systemUsers): // a controller has few workers, and would sleep
		h.RetryAfter = seconds
	}
	h.Message = fmt.Sprintf("%s: pod %s is out of service and "+ends, policyv1beta1.AnnotationDrainFirst, clean(d.Pod.Name), seconds)
}

// systemUsers begins the names of the parts of Kubernetes and of all service accounts.
const systemUsers = "system:"

// waits reports whether a refusal helps the pod, and its client asks again or the leader does. The taint manager
// does not, and the garbage collector shall not wait.
func (d Departure) waits() bool {
	switch d.Vector {
	case Evict, Delete, ScaleIn, Limpet:
		return d.By != userGarbage
	case None, Update, Resize, Leave, Preemption, Taint, AdminTaint, PodGC, NodeEnd, Teardown, Lost:
	}
	return false
}

// byWorkload reports whether the controller of the pod's workload asks, or Limpet itself. Such a controller may wait
// until the pod is Ready again before it repeats the request.
func (d Departure) byWorkload() bool {
	deletes := d.Vector == Delete || d.Vector == ScaleIn
	return d.Vector == Limpet || deletes && mayControl(d.By) && metav1.GetControllerOfNoCopy(d.Pod) != nil
}

func turned(status corev1.ConditionStatus, reason, message string, now time.Time) *corev1.PodCondition {
	since := now.Truncate(time.Second)
	if since.Before(now) { // an API object has whole seconds, and the wait shall not be shorter
		since = since.Add(time.Second)
	}
	return &corev1.PodCondition{
		Type: policyv1beta1.ConditionInService, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(since),
	}
}

// Attendance is what the leader does about a pod with the gate.
type Attendance struct {
	// Turn is the condition to write; nil for none.
	Turn *corev1.PodCondition
	// Delete tells to delete the pod, for the controller of its workload.
	Delete bool
	// Again is when to look again; 0 for never.
	Again time.Duration
}

// Attend decides about a pod with the gate: a new one gets into service. One that is out of service is deleted for its
// workload, or gets back into service when no request came again.
func Attend(pod *corev1.Pod, now time.Time) Attendance {
	c := Service(pod)
	switch {
	case !workload.Alive(pod) || !Gated(pod) || c != nil && c.Status == corev1.ConditionTrue:
		return Attendance{}
	case !OutOfService(pod):
		return Attendance{Turn: turned(corev1.ConditionTrue, ReasonInService, "", now)}
	}
	wait, _ := workload.DrainOf(pod.Annotations) // 0 when the annotation was removed
	out := now.Sub(c.LastTransitionTime.Time)
	back := 2*wait + unasked
	switch {
	case out >= back || out < -mostSkew:
		return Attendance{Turn: turned(corev1.ConditionTrue, ReasonUnasked, "no request came after the pod was out of service for its time", now)}
	case c.Reason == ReasonFollows && wait > 0 && out >= wait:
		return Attendance{Delete: true, Again: min(back-out, drainAgain)}
	case c.Reason == ReasonFollows && wait > 0:
		return Attendance{Again: wait - out}
	}
	return Attendance{Again: back - out}
}

// drainAgain is when to try again to delete a pod that its budgets keep.
const drainAgain = 5 * time.Second
