package budget

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// PodOf reads a pod. A pod that became Ready less than the stable time ago serves, and is not
// available yet. Nor is a pod whose condition Ready has no time, or one in the future, or whose change the kubelet has not
// seen: of a budget that is younger than the change, no entry tells of it.
func PodOf(pod *corev1.Pod, stable time.Duration, now time.Time) Pod {
	p := Pod{
		UID: string(pod.UID), Name: pod.Name,
		Ready:        workload.Ready(pod),
		Pending:      pod.Status.Phase == corev1.PodPending,
		Finished:     !workload.Alive(pod),
		Changing:     unseen(pod),
		OutOfService: OutOfService(pod),
	}
	p.Serving = p.Ready && !p.Finished && pod.Status.Phase == corev1.PodRunning && !marked(pod) && !p.OutOfService
	p.Available = p.Serving && !p.Changing && (stable <= 0 || SettledFor(pod, now) >= stable)
	return p
}

// marked reports whether a pod has a label unavailable-pod.kruise.io/…, with any value.
func marked(pod *corev1.Pod) bool {
	for label := range pod.Labels {
		if strings.HasPrefix(label, policyv1beta1.LabelUnavailablePrefix) {
			return true
		}
	}
	return false
}

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

// SettledFor is how long a pod has been Ready, or has not been so; 0 when that is not known.
func SettledFor(pod *corev1.Pod, now time.Time) time.Duration {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() {
			return now.Sub(c.LastTransitionTime.Time)
		}
	}
	return 0
}

// StableAt returns when a Ready pod becomes available; false for any other pod.
func StableAt(pod *corev1.Pod, stable time.Duration, now time.Time) (time.Time, bool) {
	p := PodOf(pod, stable, now)
	if !p.Serving || p.Changing || p.Available {
		return time.Time{}, false
	}
	return now.Add(stable - SettledFor(pod, now)), true
}

// unseen reports whether the kubelet has not seen the newest spec of a pod. Before Kubernetes 1.33 no kubelet tells it.
func unseen(pod *corev1.Pod) bool {
	observed := pod.Status.ObservedGeneration
	return observed > 0 && observed < pod.Generation
}

// silence is how long a node may be Ready whose kubelet is silent: 50 s, and some time to tell it.
const silence = time.Minute

// Seen is what a pod shows of an entry. silent tells that its node is not Ready. A kubelet before Kubernetes 1.33 does not tell which
// generation it has seen: it has seen each one if it was not silent.
func Seen(pod *corev1.Pod, silent bool, of ledger.Entry) ledger.PodSeen {
	seen := ledger.PodSeen{
		Version: pod.ResourceVersion, Going: !workload.Alive(pod), Generation: pod.Generation, Restarts: Restarts(pod),
		Pending: unseen(pod), Grace: time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0)) * time.Second,
	}
	seen.Silent = silent
	if pod.Status.ObservedGeneration == 0 {
		seen.Grace += silence
	}
	for _, c := range pod.Status.Conditions {
		if of.Vector == string(Update) || of.Vector == string(Leave) || c.Status != corev1.ConditionTrue {
			continue // another change does not wait for an earlier resize
		}
		seen.Pending = seen.Pending || c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonDeferred
		seen.Resizing = seen.Resizing || c.Type == corev1.PodResizeInProgress
		seen.Infeasible = seen.Infeasible || c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible
	}
	return seen
}

// Restarts is how often the containers of a pod were restarted together.
func Restarts(pod *corev1.Pod) (n int64) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		n += int64(c.RestartCount)
	}
	return n
}

// Vector is a way in which a pod goes away or becomes unavailable.
type Vector string

// Vectors, as users write them in the annotation limpet.dev/vectors.
const (
	// None: the request takes no pod away. No budget is asked.
	None       Vector = ""
	Evict      Vector = "evict"
	Delete     Vector = "delete"      // by a user, a script or a workload that replaces pods
	ScaleIn    Vector = "scale-in"    // by a workload that has more pods than it wants
	Update     Vector = "update"      // in place
	Resize     Vector = "resize"      // pods/resize
	Leave      Vector = "leave"       // a change of the pod after which a budget protects it no longer
	Preemption Vector = "preemption"  // by the scheduler
	Taint      Vector = "taint"       // by the taint manager, for an unreachable or not ready node
	AdminTaint Vector = "admin-taint" // by the taint manager, for any other taint
	PodGC      Vector = "pod-gc"
	NodeEnd    Vector = "node-end" // by a program such as Karpenter that ends the pod's node, at its deadline
	Teardown   Vector = "teardown" // the owner or the namespace is being deleted
	Limpet     Vector = "limpet"   // by the controller itself
	Lost       Vector = "lost"     // without a request: node pressure, power loss, a crash
)

// Vectors are all but None, in the order of the documents.
var Vectors = []Vector{
	Evict, Delete, ScaleIn, Update, Resize, Leave, Preemption, Taint, AdminTaint, PodGC, NodeEnd, Teardown, Limpet, Lost,
}

// Policy is what a budget does about a vector.
type Policy string

// Policies.
const (
	Check Policy = "Check" // refuse when no unit is left
	Allow Policy = "Allow" // allow, and account for it
)

// Default is the policy of a budget that says nothing about the vector.
//
// Preemption, taints of a dead node, PodGC, the end of a node and teardown are allowed: a refusal
// helps no pod, and holds up a more important pod, a node or a namespace.
func (v Vector) Default() Policy {
	switch v {
	case Preemption, Taint, PodGC, NodeEnd, Teardown, Lost:
		return Allow
	case None, Evict, Delete, ScaleIn, Update, Resize, Leave, AdminTaint, Limpet:
	}
	return Check
}

// refusable reports whether a budget may refuse the vector. A pod of PodGC has no node any
// more, and a lost pod is gone.
func (v Vector) refusable() bool { return v != PodGC && v != Lost && slices.Contains(Vectors, v) }

// Operation is the request that brings the vector, in the words of protectOperations.
func (v Vector) Operation() policyv1beta1.Operation {
	switch v {
	case Evict:
		return policyv1beta1.OperationEvict
	case Update, Leave:
		return policyv1beta1.OperationUpdate
	case Resize:
		return policyv1beta1.OperationResize
	case None, Delete, ScaleIn, Preemption, Taint, AdminTaint, PodGC, NodeEnd, Teardown, Limpet, Lost:
	}
	return policyv1beta1.OperationDelete
}

// changes reports whether the pod stays and is changed in place.
func (v Vector) changes() bool { return v == Update || v == Resize || v == Leave }
