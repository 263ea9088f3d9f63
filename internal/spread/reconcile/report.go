package reconcile

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/limpet-io/limpet/internal/spread"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Reasons of events on WorkloadSpreads.
const (
	// ReasonSubsetSkipped: pods could not be scheduled, and new pods get other subsets.
	ReasonSubsetSkipped = "SubsetSkipped"
	// ReasonSubsetUnschedulable: the scheduler finds no node for pods of a subset that new pods get all
	// the same.
	ReasonSubsetUnschedulable = "SubsetUnschedulable"
	// ReasonRecovered: new pods get a subset again. OpenKruise has the same reason.
	ReasonRecovered = "RecoverSchedulable"
	// ReasonAdopted: pods that were there before got a subset.
	ReasonAdopted = "PodsAdopted"
	// ReasonRescheduled: a pod that could not be scheduled is created again.
	ReasonRescheduled = "PodRescheduled"
	// ReasonReturned: a pod is created again in its own subset.
	ReasonReturned = "PodReturns"
)

// reportSubsets tells which subsets are skipped from now on, and which no longer are. A subset that
// is not skipped is told when its first pod waits for a node, and when its last pod has one.
func (r *Reconciler) reportSubsets(s *situation, a spread.Actions) {
	for _, name := range a.Skip {
		late := 0
		for _, m := range s.pods {
			if m.subset == name && slices.Contains(a.Reschedule, m.UID) {
				late++
			}
		}
		r.Events.Eventf(s.object, nil, corev1.EventTypeWarning, ReasonSubsetSkipped, "Skip",
			"subset %s gets no new pods for %v: the scheduler found no node for %d pods", name, s.says.Adaptive.Recovery, late)
	}
	for _, name := range a.Recover {
		r.Events.Eventf(s.object, nil, corev1.EventTypeNormal, ReasonRecovered, "Recover", "subset %s gets new pods again", name)
	}
	for _, o := range s.says.Subsets {
		before := meta.FindStatusCondition(s.before(o.Name), appsv1beta1.ConditionSchedulable)
		waited := before != nil && before.Reason == appsv1beta1.ReasonPodWaits
		switch n := a.Waits[o.Name]; {
		case n > 0 && !waited:
			r.Events.Eventf(s.object, nil, corev1.EventTypeWarning, ReasonSubsetUnschedulable, "Wait",
				"the scheduler finds no node for %d pods of subset %s; new pods get the subset all the same: %s; remedy: nodes for the subset", n, o.Name, s.says.WhyNotSkipped(o.Name))
		case n == 0 && waited:
			r.Events.Eventf(s.object, nil, corev1.EventTypeNormal, ReasonRecovered, "Recover", "no pod of subset %s waits for a node", o.Name)
		}
	}
}

// reportMove tells that a pod was deleted.
func (r *Reconciler) reportMove(s *situation, m *member, why string) {
	r.Metrics.moved(why, 1)
	if why == returned {
		r.Events.Eventf(s.object, nil, corev1.EventTypeNormal, ReasonReturned, "Return", "pod %s is created again in its own subset", m.Name)
		return
	}
	r.Events.Eventf(s.object, nil, corev1.EventTypeNormal, ReasonRescheduled, "Reschedule",
		"pod %s is created again: no node of subset %s took the pod", m.Name, m.subset)
}
