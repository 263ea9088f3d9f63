package reconcile

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Reasons of events.
const (
	reasonRefused = "DisruptionRefused"   // a request was refused
	reasonLost    = "DisruptionUnguarded" // pods became unavailable without a request that was judged
)

// mostTold is how many lost pods one event names.
const mostTold = 5

// report makes the events and counts of one reconcile. It is called once the status is
// written, so that nothing is reported twice.
func (r *Reconciler) report(pub *policyv1beta1.PodUnavailableBudget, s *situation, refused []ledger.Decision, lost []loss, tellLost bool) {
	object := s.object()
	for _, d := range refused {
		note := fmt.Sprintf("%s of pod %s by %s was refused (%s): the budget %s", d.Vector, d.Pod, shortened(d.By, longestBy), d.Reason, s.explain(d.Pod))
		r.Events.Eventf(object, nil, corev1.EventTypeWarning, reasonRefused, "Judge", "%s", note)
		if i := slices.IndexFunc(s.covered.Pods, func(p *corev1.Pod) bool { return p.Name == d.Pod }); i >= 0 {
			r.Events.Eventf(s.covered.Pods[i], object, corev1.EventTypeWarning, reasonRefused, "Judge", "%s", note)
		}
	}
	var names []string
	for _, l := range lost {
		if r.memory.count(pub.Namespace, l.uid, s.now) {
			r.Metrics.lost(l.cause)
		}
		names = append(names, fmt.Sprintf("%s (%s)", l.pod, l.cause))
	}
	if len(names) > 0 && tellLost {
		r.Events.Eventf(object, nil, corev1.EventTypeWarning, reasonLost, "Observe", "%s", lossNote(names))
	}
	r.reportEnforced(s)
}

// lossNote names the first pods that were lost.
func lossNote(names []string) string {
	slices.Sort(names)
	note := fmt.Sprintf("pods became unavailable without a request that was judged: %v", names[:min(len(names), mostTold)])
	if more := len(names) - mostTold; more > 0 {
		note += fmt.Sprintf(" and %d more", more)
	}
	return note
}

// reportEnforced makes an event when a budget is not enforced from now on.
func (r *Reconciler) reportEnforced(s *situation) {
	c := s.enforced()
	before := meta.FindStatusCondition(s.before, policyv1beta1.ConditionEnforced)
	if c.Status == metav1.ConditionFalse && (before == nil || before.Status != metav1.ConditionFalse) {
		r.Events.Eventf(s.object(), nil, corev1.EventTypeWarning, c.Reason, "Enforce", "%s", c.Message)
	}
}

// conditionOf is what the metrics need to know of a budget.
func conditionOf(status policyv1beta1.PodUnavailableBudgetStatus, s *situation) condition {
	c := condition{enforced: meta.IsStatusConditionTrue(status.Conditions, policyv1beta1.ConditionEnforced), unjudged: s.missed}
	for _, d := range status.Decisions { // a controller that started since has no other memory; later decisions displace it
		if d.Reason == string(causeNotJudged) && d.Time.After(c.unjudged) {
			c.unjudged = d.Time.Time
		}
	}
	covered := map[string]bool{}
	for _, pod := range s.covered.Budget.Pods {
		covered[pod.Name] = true
	}
	for _, w := range s.book.Waiting {
		if covered[w.Pod] && s.now.Sub(w.Last) < ledger.Lapse && (c.waiting.IsZero() || w.Since.Before(c.waiting)) {
			c.waiting = w.Since
		}
	}
	return c
}
