package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Labels keeps the labels of an object, for selectors.
func Labels[T client.Object](from, to T) { to.SetLabels(from.GetLabels()) }

// PodNode keeps where a pod runs.
func PodNode(from, to *corev1.Pod) { to.Spec.NodeName = from.Spec.NodeName }

// Phase keeps the phase of a pod, and whether it is Ready.
func Phase(from, to *corev1.Pod) {
	to.Status.Phase = from.Status.Phase
	keepCondition(from, to, corev1.PodReady)
}

// keepCondition keeps the status of one of a pod's conditions.
func keepCondition(from, to *corev1.Pod, kind corev1.PodConditionType) {
	for _, kept := range to.Status.Conditions {
		if kept.Type == kind {
			return // another feature's part was first
		}
	}
	for _, c := range from.Status.Conditions {
		if c.Type == kind {
			to.Status.Conditions = append(to.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status})
		}
	}
}

// Verdict keeps since when the scheduler has found no node for a pod. The message is another
// feature's.
func Verdict(from, to *corev1.Pod) {
	if from.Spec.NodeName != "" {
		return
	}
	at := slices.IndexFunc(from.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if at < 0 {
		return
	}
	c := from.Status.Conditions[at]
	verdict := corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime}
	for i := range to.Status.Conditions {
		if known := &to.Status.Conditions[i]; known.Type == c.Type {
			verdict.Message = known.Message
			*known = verdict
			return
		}
	}
	to.Status.Conditions = append(to.Status.Conditions, verdict)
}

// ReadySince keeps since when a pod is Ready, or is not.
func ReadySince(from, to *corev1.Pod) {
	keepWhole(from, to, corev1.PodReady, func(c corev1.PodCondition) corev1.PodCondition {
		return corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}
	})
}

// Disrupted keeps why Kubernetes ends a pod, or has ended it. Few pods have that.
func Disrupted(from, to *corev1.Pod) {
	to.Status.Phase, to.Status.Reason = from.Status.Phase, from.Status.Reason
	keepWhole(from, to, corev1.DisruptionTarget, func(c corev1.PodCondition) corev1.PodCondition {
		return corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime}
	})
}

// keepWhole keeps more of a condition than keepCondition, in whatever order the two are called.
func keepWhole(from, to *corev1.Pod, kind corev1.PodConditionType, short func(corev1.PodCondition) corev1.PodCondition) {
	to.Status.Conditions = slices.DeleteFunc(to.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	for _, c := range from.Status.Conditions {
		if c.Type == kind {
			to.Status.Conditions = append(to.Status.Conditions, short(c))
		}
	}
}

const (
	// mostTolerations is how many tolerations of a pod the cache keeps: users may write 1 MiB of
	// them. A pod with more counts as one that tolerates less.
	mostTolerations = 64
	// mostGates is how many gates of a pod the cache keeps, beside those of Limpet. It matters
	// whether there is another one.
	mostGates = 8
)

// ownGates are the gates that Limpet opens.
var ownGates = []string{"limpet.dev/pin", appsv1beta1.GateScaleOut}

// Tolerations keeps which taints a pod tolerates.
func Tolerations(from, to *corev1.Pod) {
	to.Spec.Tolerations = from.Spec.Tolerations
	if len(to.Spec.Tolerations) > mostTolerations {
		to.Spec.Tolerations = slices.Clone(to.Spec.Tolerations[:mostTolerations]) // so that the others are freed
	}
}

// Gates keeps the first gates of a pod, and those of Limpet.
func Gates(from, to *corev1.Pod) {
	all := from.Spec.SchedulingGates
	to.Spec.SchedulingGates = all
	if len(all) <= mostGates {
		return
	}
	to.Spec.SchedulingGates = slices.Clone(all[:mostGates])
	for _, g := range all[mostGates:] {
		if slices.Contains(ownGates, g.Name) {
			to.Spec.SchedulingGates = append(to.Spec.SchedulingGates, g)
		}
	}
}

// PodsOf returns the pods that a workload of a kind with returning names controls.
func PodsOf(ctx context.Context, r client.Reader, namespace string, t workload.Target) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := r.List(ctx, &pods, client.InNamespace(namespace),
		client.MatchingFields{indexTarget: t.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", t, err)
	}
	return pods.Items, nil
}

// PodsOfOwner returns the pods with the completed name of an owner, also those that have ended.
func PodsOfOwner(ctx context.Context, r client.Reader, namespace, owner string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(namespace), client.MatchingFields{indexOwnerName: owner}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods of owner %s: %w", owner, err)
	}
	return pods.Items, nil
}

// PodAddresses keeps the addresses of a pod, and whether these are of its node.
func PodAddresses(from, to *corev1.Pod) {
	to.Spec.HostNetwork, to.Status.PodIPs = from.Spec.HostNetwork, from.Status.PodIPs
}

// PodsAt returns the pods with an address that have not ended. Pods with hostNetwork have none of their own.
func PodsAt(ctx context.Context, r client.Reader, ip string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := r.List(ctx, &list, client.MatchingFields{indexIP: ip}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods with address %s: %w", ip, err)
	}
	return list.Items, nil
}
