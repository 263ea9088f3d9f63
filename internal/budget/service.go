package budget

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Times of a pod that is out of service.
const (
	// unasked is how long after twice its time a pod goes back into service if no request came for it, unchanged that for a
	// change in place, which programs repeat once a minute, and rarely that for a pod whose last request came too late.
	unasked   = 30 * time.Second
	unchanged = 2 * time.Minute
	rarely    = 10 * time.Minute
	// clocks is what a container's start may be older than it is: API objects have whole seconds.
	clocks = 2 * time.Second
	// mostSkew is how far the clocks of two replicas may differ. A time that is later was not written by one of them.
	mostSkew = 5 * time.Second
	// longestSleep is the longest time for which a client library is told to sleep before its user learns of it.
	longestSleep = 30 * time.Second
)

// Reasons of the condition limpet.dev/in-service. The policy in deploy/policies knows ReasonFollows: the leader may delete
// such a pod of a StatefulSet.
const (
	ReasonInService  = "InService"              // a new pod is in service
	ReasonRepeat     = "RequestIsRepeated"      // out of service: the client asks again
	ReasonRarely     = "RepeatedRarely"         // the same, for longer: it did not come in time before
	ReasonChange     = "ChangeIsRepeated"       // out of service: the client changes the pod in place when it asks again
	ReasonRareChange = "ChangeIsRepeatedRarely" // the same, for longer, as RepeatedRarely
	ReasonFollows    = "DeletionFollows"        // out of service: the leader ends the wait of the controller of a workload
	ReasonUnasked    = "NotAskedAgain"          // back in service: the request did not come again, or is not wanted any more
	ReasonChanged    = "Changed"                // back in service: the change in place is made
)

// ServicePatch is the strategic merge patch of a pod's status that sets a condition, if the pod still has the UID and,
// unless that is empty, the version.
func ServicePatch(uid types.UID, version string, c corev1.PodCondition) ([]byte, error) {
	of := metav1.ObjectMeta{UID: uid, ResourceVersion: version}
	patch, err := json.Marshal(map[string]any{"metadata": of, "status": map[string]any{"conditions": []corev1.PodCondition{c}}})
	if err != nil {
		return nil, fmt.Errorf("encode condition %s: %w", c.Type, err)
	}
	return patch, nil
}

// Departure is a pod that its budgets let go, or be changed in place.
type Departure struct {
	Now time.Time
	// Pod as the API server has it.
	Pod    *corev1.Pod
	Vector Vector
	By     string
	// Forced: the client waits for no grace period.
	Forced bool
	// Restarts: the request changes the pod in place, and a container stops for that.
	Restarts bool
	// Once: Kubernetes would refuse the request when it is repeated, so that the pod has to go now.
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
	wait, err := workload.WaitOf(d.Pod, d.Restarts)
	if err != nil || wait.Most == 0 || wait.Done || d.Forced || d.Once || !d.waits() || !workload.Alive(d.Pod) || !Gated(d.Pod) {
		return Hold{}
	}
	h, follows, c := Hold{Left: wait.Most}, d.byWorkload(), Service(d.Pod)
	switch out := OutOfService(d.Pod); {
	case out && !c.LastTransitionTime.IsZero() && c.LastTransitionTime.Sub(d.Now) <= mostSkew:
		if h.Left = min(wait.Most, wait.Most-d.Now.Sub(c.LastTransitionTime.Time)); h.Left <= 0 {
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
		h.Turn = turned(corev1.ConditionFalse, d.reason(follows, c), fmt.Sprintf("for %s: %s by %s", wait.Most, d.Vector, user(d.By)), d.Now)
		h.Turn.ObservedGeneration = d.Pod.Generation
	}
	d.tell(&h, wait, follows)
	return h
}

// reason says how the wait ends. was is the condition of the pod that is in service; nil for none.
func (d Departure) reason(follows bool, was *corev1.PodCondition) string {
	late := was != nil && was.Reason == ReasonUnasked && d.Now.Sub(was.LastTransitionTime.Time) < rarely
	switch {
	case d.Restarts && late:
		return ReasonRareChange
	case d.Restarts:
		return ReasonChange
	case follows:
		return ReasonFollows
	case late:
		return ReasonRarely
	}
	return ReasonRepeat
}

// tell says to the client how long the pod waits, and who ends it.
func (d Departure) tell(h *Hold, wait workload.Wait, follows bool) {
	seconds := int32((h.Left + time.Second - 1) / time.Second)
	by, does, when := policyv1beta1.AnnotationDrainFirst, "may go", fmt.Sprintf("in %d s", seconds)
	if d.Restarts {
		does = "may be changed"
	}
	if wait.Handled {
		by, when = policyv1beta1.AnnotationLifecycle, "when its handler is done, "+when+" at the latest"
	}
	again := ": ask again then"
	switch {
	case follows:
		does, again = "goes", ""
	case h.Left <= longestSleep && (d.Vector == Evict || !strings.HasPrefix(d.By, accounts)): // a controller that deletes pods has few workers
		h.RetryAfter = seconds
	}
	h.Message = fmt.Sprintf("%s: pod %s is out of service and %s %s%s", by, clean(d.Pod.Name), does, when, again)
}

// waits reports whether a refusal helps the pod, and its client asks again. The taint manager does not, the garbage
// collector shall not wait, and Limpet itself moves a pod that was away from its place.
func (d Departure) waits() bool {
	switch d.Vector {
	case Evict, Delete, ScaleIn:
		return d.By != userGarbage
	case Update, Resize:
		return d.Restarts
	case None, Leave, Preemption, Taint, AdminTaint, PodGC, NodeEnd, Teardown, Limpet, Lost:
	}
	return false
}

// byWorkload reports whether the controller of the pod's workload asks. It waits ever longer before it repeats a request,
// and that of a StatefulSet until all pods are Ready. The controllers of other kinds, whose groups have a dot, have no
// known name. Any other service account asks for itself: a workload of Kubernetes does not want what it deletes.
func (d Departure) byWorkload() bool {
	owner, controlled := workload.OwnerOf(d.Pod)
	byName := slices.Contains(workloadControllers, d.By) || d.By == userControllerManager
	return controlled && d.Vector != Evict && !d.Restarts && (byName || strings.Contains(owner.Group, ".") && mayControl(d.By))
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
	// Finish tells to end the wait of the controller of the pod's workload.
	Finish bool
	// Again is when to look again; 0 for never.
	Again time.Duration
}

// Attend decides about a pod with the gate: a new one gets into service. One that is out of service goes for its workload,
// or gets back into service when it was changed, or no request came again.
func Attend(pod *corev1.Pod, now time.Time) Attendance {
	c := Service(pod)
	switch {
	case !workload.Alive(pod) || !Gated(pod) || c != nil && c.Status == corev1.ConditionTrue:
		return Attendance{}
	case !OutOfService(pod):
		return Attendance{Turn: turned(corev1.ConditionTrue, ReasonInService, "", now)}
	}
	wait, _ := workload.WaitOf(pod, forChange(c)) // none when the annotations were removed
	out, back := now.Sub(c.LastTransitionTime.Time), 2*wait.Most+stays(pod, c)
	switch {
	case out < -mostSkew: // else requests would wait until that time, or never go if the leader's clock is behind
		turn := turned(c.Status, c.Reason, c.Message, now)
		turn.ObservedGeneration = c.ObservedGeneration
		return Attendance{Turn: turn}
	case changed(pod, c) && !unseen(pod) && (restarted(pod, c.LastTransitionTime.Time) || infeasible(pod, c.LastTransitionTime.Time)):
		return Attendance{Turn: turned(corev1.ConditionTrue, ReasonChanged, "", now)}
	case out >= back:
		return Attendance{Turn: Unasked(now)}
	case c.Reason != ReasonFollows || wait.Most == 0:
		return Attendance{Again: back - out}
	case out < wait.Most && !wait.Done:
		return Attendance{Again: wait.Most - out}
	}
	return Attendance{Finish: true, Again: min(back-out, drainAgain)}
}

// stays is how long after twice its time a pod goes back into service. A change that is made may restart nothing.
func stays(pod *corev1.Pod, c *corev1.PodCondition) time.Duration {
	switch {
	case c.Reason == ReasonRarely, c.Reason == ReasonRareChange:
		return rarely
	case changed(pod, c):
		return unchanged + silence + time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0))*time.Second
	case c.Reason == ReasonChange:
		return unchanged
	}
	return unasked
}

// forChange reports whether a pod is out of service for a change in place.
func forChange(c *corev1.PodCondition) bool {
	return c.Reason == ReasonChange || c.Reason == ReasonRareChange
}

// changed reports whether the change may be made for which a pod is out of service. Before Kubernetes 1.33 no generation
// tells it.
func changed(pod *corev1.Pod, c *corev1.PodCondition) bool {
	return forChange(c) && (pod.Generation == 0 || pod.Generation > c.ObservedGeneration)
}

// restarted reports whether the kubelet, which has seen the newest spec of a pod, started a container for it. It stops all that
// it restarts before it starts the first one: from then on the pod itself shows whether it is Ready.
func restarted(pod *corev1.Pod, since time.Time) bool { return Started(pod).After(since.Add(-clocks)) }

// infeasible reports whether the kubelet refuses a resize since a time. An earlier resize may have been refused before.
func infeasible(pod *corev1.Pod, since time.Time) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonInfeasible &&
			c.LastTransitionTime.After(since.Add(-clocks))
	})
}

// Started is when the newest container of a pod was started.
func Started(pod *corev1.Pod) (newest time.Time) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if running := c.State.Running; running != nil && running.StartedAt.After(newest) {
			newest = running.StartedAt.Time
		}
	}
	return newest
}

// Unasked is the condition of a pod that is back in service.
func Unasked(now time.Time) *corev1.PodCondition {
	return turned(corev1.ConditionTrue, ReasonUnasked, "the request did not come again", now)
}

// drainAgain is when to try again to end the wait of a workload whose budgets keep the pod.
const drainAgain = 5 * time.Second

// Unwanted reports whether a StatefulSet wants that one of its pods goes: by its size, or by its update. The controller
// that asked for the deletion does not tell when that is no longer so.
func Unwanted(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	ordinal, err := strconv.ParseInt(pod.Name[strings.LastIndexByte(pod.Name, '-')+1:], 10, 32)
	first, partition := int64(0), int64(0)
	if set.Spec.Ordinals != nil {
		first = int64(set.Spec.Ordinals.Start)
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		partition = int64(ptr.Deref(rolling.Partition, 0))
	}
	switch {
	case err != nil || set.DeletionTimestamp != nil:
		return false
	case ordinal < first || ordinal >= first+int64(ptr.Deref(set.Spec.Replicas, 1)):
		return true
	}
	return set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType && ordinal >= first+partition &&
		set.Status.UpdateRevision != "" && pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision
}

// Surplus reports whether a ReplicaSet has more pods than it wants, or has not counted them since it was changed. It deletes
// pods for nothing else.
func Surplus(set *appsv1.ReplicaSet) bool {
	return set.Status.ObservedGeneration != set.Generation || set.Status.Replicas > ptr.Deref(set.Spec.Replicas, 1)
}
