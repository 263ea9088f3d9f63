package budget

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Reasons of the conditions Enforced and DisruptionAllowed.
const (
	ReasonEnforced           = "Enforced"             // the guard is asked before a pod of the budget goes
	ReasonEnforcedNoWebhook  = "WebhookMissing"       // the webhook of the guard is not installed
	ReasonEnforcedOldWebhook = "WebhookNotCurrent"    // the webhook of the guard lacks rules or the certificate authority of this version
	ReasonEnforcedNoLabel    = "NamespaceNotLabelled" // the namespace lacks its label, so that the API server does not ask the guard
	ReasonEnforcedNotCalled  = "NotCalled"            // a test request did not reach the guard, or a pod went without a question
	ReasonEnforcedNotProbed  = "NotProbed"            // the guard has not answered a test request yet
	ReasonEnforcedNoPods     = "SelectorInvalid"      // the selector or the target is invalid, and the budget covers no pod
	ReasonEnforcedOldRules   = "AnnotationInvalid"    // some annotations are invalid, and the defaults hold
	ReasonEnforcedBarePods   = "PodsWithoutWorkload"  // no workload makes some pods again, and the budget has no number for them
	ReasonDisruptionUnits    = "UnitsLeft"            // further pods may become unavailable
	ReasonNothingProtected   = "NothingProtected"     // no pod must stay available, so all pods may go
	ReasonDisruptionNone     = "BudgetExhausted"      // as many pods are unavailable as the budget allows
	ReasonDisruptionNever    = "NoPodMayGo"           // the budget lets no pod go at this size
	ReasonDisruptionSizeless = "SizeUnknown"          // the size of the workload cannot be read
)

// ConditionChild is whether a DistributedPodDisruptionBudget has the PodDisruptionBudget that it asks for, and its reasons.
const (
	ConditionChild     = "Child"                      // the budget keeps a PodDisruptionBudget of its share
	ReasonChildKept    = "PodDisruptionBudgetKept"    // there is a PodDisruptionBudget of the share
	ReasonChildOther   = "OtherPodDisruptionBudget"   // another budget of the same pods keeps it away
	ReasonChildRefused = "PodDisruptionBudgetRefused" // the API server, a quota or a policy takes none
	ReasonChildNoSize  = "SizeUnknownToKubernetes"    // it lets no pod go, whatever the share is
)

// missedFor is how long a pod that went without a request to the guard counts against it.
const missedFor = 10 * time.Minute

// Guard is what is known of the way from the API server to the guard.
type Guard struct {
	// Webhook says what is wrong with the webhook: "" for one that is installed, and has the
	// rules and the certificate authority of this version. Missing tells that there is none.
	Missing bool
	Webhook string
	// Label is the value of the label limpet.dev/budgets of the namespace, Wanted the value
	// that it should have.
	Label, Wanted string
	// Called is when the API server last asked about a pod of the namespace; Missed is when a
	// pod of the budget last went without having been asked about. Zero for never.
	Called, Missed time.Time
	// Probe says why the last self-test failed; "" when it succeeded. Unprobed tells that none
	// was made yet.
	Probe    string
	Unprobed bool
	// Problem is the error of MatcherOf: the budget covers no pod.
	Problem error
	Loose   int // see Budget.Loose
	// Rules are the rules in force, and Invalid is the error of RulesOf.
	Rules   Rules
	Invalid error
}

// EnforcedOf is the condition Enforced: requests for pods of the budget reach the guard. The
// caller sets the generation and the time.
func EnforcedOf(g Guard, now time.Time) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return condition(policyv1beta1.ConditionEnforced, metav1.ConditionFalse, reason, message)
	}
	switch missed := g.Missed; {
	case g.Problem != nil:
		return no(ReasonEnforcedNoPods, fmt.Sprintf("The budget covers no pod: %s.", sentence(g.Problem.Error())))
	case g.Missing:
		return no(ReasonEnforcedNoWebhook, "The webhook of the guard is not installed: apply deploy/controller.")
	case g.Webhook != "":
		return no(ReasonEnforcedOldWebhook, fmt.Sprintf("The webhook of the guard is not this version's: %s.", sentence(g.Webhook)))
	case g.Label == "" || g.Label != g.Wanted:
		return no(ReasonEnforcedNoLabel, fmt.Sprintf("The namespace needs the label %s=%s and has %q.",
			policyv1beta1.LabelBudgets, clean(g.Wanted), clean(g.Label)))
	case g.Probe != "":
		return no(ReasonEnforcedNotCalled, fmt.Sprintf("A test request did not reach the guard: %s.", sentence(g.Probe)))
	case !missed.IsZero() && missed.After(g.Called) && now.Sub(missed) < missedFor:
		return no(ReasonEnforcedNotCalled, fmt.Sprintf("A pod went %s ago, and the guard was not asked.", age(now.Sub(missed))))
	case g.Unprobed:
		return condition(policyv1beta1.ConditionEnforced, metav1.ConditionUnknown, ReasonEnforcedNotProbed,
			"No test request was sent to the guard yet.")
	case g.Loose > 0:
		return no(ReasonEnforcedBarePods, fmt.Sprintf("%d pods have no workload that makes them again, so that the size shrinks with each: "+
			"set protectTotalReplicas, or minAvailable to a number.", g.Loose))
	case g.Invalid != nil:
		return no(ReasonEnforcedOldRules, fmt.Sprintf("Some annotations are invalid, and the defaults hold: %s.", sentence(g.Invalid.Error())))
	}
	silent := "Pods may go while the controller does not answer."
	if g.Label == policyv1beta1.LabelBudgetsClosed {
		silent = "No pod of the namespace may go while the controller does not answer."
	}
	return condition(policyv1beta1.ConditionEnforced, metav1.ConditionTrue, ReasonEnforced, silent)
}

// DisruptionAllowedOf is the condition DisruptionAllowed: a further pod may become
// unavailable.
func DisruptionAllowedOf(n Numbers, explained string) metav1.Condition {
	set := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(policyv1beta1.ConditionDisruptionAllowed, status, reason, message)
	}
	switch {
	case n.Unknown != "" && n.Allowed == 0:
		return set(metav1.ConditionFalse, ReasonDisruptionSizeless, bounded("The budget "+explained))
	case n.Desired == 0:
		return set(metav1.ConditionTrue, ReasonNothingProtected, "No pod must stay available, so all pods may go.")
	case n.Allowed > 0:
		return set(metav1.ConditionTrue, ReasonDisruptionUnits, fmt.Sprintf("%d of %d pods may become unavailable.", n.Allowed, n.Total))
	case n.Desired >= n.Total:
		return set(metav1.ConditionFalse, ReasonDisruptionNever, bounded("No pod may go at this size: the budget "+explained))
	}
	return set(metav1.ConditionFalse, ReasonDisruptionNone, bounded("The budget "+explained))
}

// DividedAllowedOf is DisruptionAllowedOf for a budget with groups. The numbers are those of all of them.
func DividedAllowedOf(n Numbers, blocked, groups int, explained string) metav1.Condition {
	c := DisruptionAllowedOf(n, explained)
	switch {
	case c.Reason == ReasonDisruptionUnits && blocked > 0:
		c.Message = fmt.Sprintf("%d of %d pods may become unavailable together; %d of %d groups let no pod go.", n.Allowed, n.Total, blocked, groups)
	case c.Reason == ReasonDisruptionNone, c.Reason == ReasonDisruptionNever:
		c.Reason = ReasonDisruptionNone // the groups may have pods in common, so that their sums tell nothing
		c.Message = bounded(fmt.Sprintf("No pod may go, by %d of %d groups: %s", blocked, groups, explained))
	}
	return c
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
