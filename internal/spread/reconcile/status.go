package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/spread"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// writeStatus writes what the status shows, if it has changed.
func (r *Reconciler) writeStatus(ctx context.Context, s *situation, a spread.Actions) error {
	next := s.object.DeepCopy()
	next.Status = s.status(a, metav1.NewTime(r.Clock.Now()))
	r.Metrics.shown(client.ObjectKeyFromObject(s.object), next.Status)
	if equality.Semantic.DeepEqual(s.object.Status, next.Status) {
		return nil
	}
	err := r.Client.Status().Patch(ctx, next, client.MergeFrom(s.object))
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	r.memory.wrote(client.ObjectKeyFromObject(next), cluster.Write{Version: next.ResourceVersion, At: r.Clock.Now()})
	r.reportSubsets(s, a)
	return nil
}

// status is what the status shows.
func (s *situation) status(a spread.Actions, now metav1.Time) appsv1beta1.WorkloadSpreadStatus {
	out := appsv1beta1.WorkloadSpreadStatus{ObservedGeneration: s.object.Generation, Conditions: slices.Clone(s.object.Status.Conditions)}
	out.SubsetStatuses, out.VersionedSubsetStatuses = spread.Status(spread.StatusInput{Spread: s.says, Revisions: s.revisions()})
	for i := range out.SubsetStatuses {
		out.SubsetStatuses[i].Conditions = s.schedulable(out.SubsetStatuses[i].Name, a, now)
	}
	c := s.placed()
	c.Type, c.LastTransitionTime, c.ObservedGeneration = appsv1beta1.ConditionPlaced, now, s.object.Generation
	meta.SetStatusCondition(&out.Conditions, c)
	s.show(&out, appsv1beta1.ConditionNearerSpread, appsv1beta1.ConditionNearerSpread, s.nearerText(), now)
	s.show(&out, appsv1beta1.ConditionRolloutBlocked, appsv1beta1.ReasonNoRoomToSurge, s.blockedText(), now)
	s.show(&out, appsv1beta1.ConditionKindsInvalid, appsv1beta1.ReasonKindsInvalid, s.kindProblem, now)
	return out
}

// show shows a condition that is True, or removes it where there is nothing to say.
func (s *situation) show(out *appsv1beta1.WorkloadSpreadStatus, kind, reason, text string, now metav1.Time) {
	if text == "" {
		meta.RemoveStatusCondition(&out.Conditions, kind)
		return
	}
	meta.SetStatusCondition(&out.Conditions, metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: shortened(text), LastTransitionTime: now, ObservedGeneration: s.object.Generation,
	})
}

// schedulable are the conditions of a subset. A subset of a fixed spread has Schedulable only while a
// pod waits for a node.
func (s *situation) schedulable(subset string, a spread.Actions, now metav1.Time) []metav1.Condition {
	takes, adaptive := a.Schedulable[subset]
	before := s.before(subset)
	if !adaptive && a.Waits[subset] == 0 {
		meta.RemoveStatusCondition(&before, appsv1beta1.ConditionSchedulable)
		return before
	}
	c := metav1.Condition{
		Type: appsv1beta1.ConditionSchedulable, Status: metav1.ConditionTrue, Reason: appsv1beta1.ReasonSufficient,
		Message: "new pods get this subset", LastTransitionTime: now, ObservedGeneration: s.object.Generation,
	}
	switch {
	case adaptive && !takes:
		c.Status, c.Reason = metav1.ConditionFalse, appsv1beta1.ReasonPodUnschedulable
		c.Message = "the scheduler found no node for a pod; new pods get other subsets"
	case a.Waits[subset] > 0:
		c.Status, c.Reason = metav1.ConditionFalse, appsv1beta1.ReasonPodWaits
		c.Message = "the scheduler finds no node for a pod; new pods get this subset all the same: " + s.says.WhyNotSkipped(subset)
	}
	meta.SetStatusCondition(&before, c)
	return before
}

// before are the conditions of a subset that the status has.
func (s *situation) before(subset string) []metav1.Condition {
	for _, o := range s.object.Status.SubsetStatuses {
		if o.Name == subset {
			return slices.Clone(o.Conditions)
		}
	}
	return nil
}

// nearerText says how many pods have another spread; "" for none.
func (s *situation) nearerText() string {
	if len(s.nearer) == 0 {
		return ""
	}
	pods, names := 0, slices.Sorted(maps.Keys(s.nearer))
	for _, n := range s.nearer {
		pods += n
	}
	return fmt.Sprintf("%d pods have WorkloadSpread %s, whose target is nearer to them or whose name comes first", pods, strings.Join(names[:min(len(names), mostNamed)], ", "))
}

// blockedText says in which subset a rollout would wait; "" for none.
func (s *situation) blockedText() string {
	if s.blocked == "" {
		return ""
	}
	return "no node of subset " + s.blocked + " has room for one pod more, and a rollout of the Deployment deletes no pod before its successor is Ready: " +
		"it would wait without end; remedy: rollingUpdate.maxUnavailable of 1 or more, or room for maxSurge pods"
}

// mostNamed is how many other spreads a condition names.
const mostNamed = 3

// placed is the condition that reports whether pods get a subset, and all of it.
func (s *situation) placed() metav1.Condition {
	no := metav1.Condition{Status: metav1.ConditionFalse, Reason: appsv1beta1.ReasonNoSubsetFits}
	if s.unknown != "" && len(s.says.Subsets) == 0 {
		no.Message = "maxReplicas are percentages, and " + s.unknown
		return no
	}
	if no.Message = s.withoutSubset(); no.Message != "" {
		return no
	}
	if s.problem != "" {
		no.Reason, no.Message = appsv1beta1.ReasonPatchFailed, shortened(s.problem)
		return no
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: appsv1beta1.ReasonPlaced, Message: "pods get a subset"}
}

// withoutSubset tells how many pods have no subset, and what helps; "" for none. A pod with a node is
// adopted whether slots are free or not, unless no subset has its node.
func (s *situation) withoutSubset() string {
	without, pending := 0, 0
	for _, m := range s.pods {
		if slices.ContainsFunc(s.says.Subsets, func(o spread.Subset) bool { return o.Name == m.subset }) {
			continue
		}
		if without++; m.Spec.NodeName == "" {
			pending++
		}
	}
	if without == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of %d pods have no subset", without, len(s.pods))
	if s.outside > 0 {
		text += fmt.Sprintf("; %d run on nodes of no subset; remedy: add these nodes to a subset, or delete these pods", s.outside)
	}
	if pending > 0 {
		text += fmt.Sprintf("; %d have no node yet; remedy: raise maxReplicas or add a subset without it, and delete these pods", pending)
	}
	return text
}

// patchProblem tells which patch does not apply to a pod of its subset; "" for none. The cache
// does not hold whole pods, so that one pod of each revision is read.
func (r *Reconciler) patchProblem(ctx context.Context, s *situation) (string, error) {
	for _, o := range s.says.Subsets {
		at := slices.IndexFunc(s.pods, func(m *member) bool { return m.subset == o.Name })
		if o.Patch == nil || at < 0 {
			continue
		}
		tried := attempt{s.object.UID, s.object.Generation, o.Name, s.pods[at].revision}
		problem, known := r.memory.patches.Get(s.object.Namespace, tried)
		if !known {
			pod := &corev1.Pod{}
			switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.pods[at]), pod); {
			case apierrors.IsNotFound(err):
				continue
			case err != nil:
				return "", fmt.Errorf("get pod %s: %w", s.pods[at].Name, err)
			}
			if _, err := podpatch.Strategic(pod, o.Patch); err != nil {
				problem = fmt.Sprintf("the patch of subset %s does not apply: %v", o.Name, err)
			}
			r.memory.patches.Put(fair.Bounds{All: mostPatches}, s.object.Namespace, tried, shortened(problem))
		}
		if problem != "" {
			return problem, nil
		}
	}
	return "", nil
}

// mostText is the length of a message that quotes what users wrote.
const mostText = 1000

func shortened(text string) string { return text[:min(len(text), mostText)] }
