package reconcile

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/mark"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// guardState is what is known of the guard of one namespace.
type guardState struct {
	// label of the namespace, and the label that its budgets need.
	label, wanted string
	// missing tells that there is no webhook configuration, lacks what it does not ask about.
	missing bool
	lacks   string
	probe   probe
	// ending tells that the namespace is being deleted.
	ending bool
}

// probe is the answer to a request that the guard must refuse.
type probe struct {
	// called is when the guard last answered. failed: the API server answered without the guard.
	called  time.Time
	failed  bool
	message string // why the probe failed, or could not be sent
}

// condition is the condition Enforced. The other facts about the budget are in g.
func (s guardState) condition(g budget.Guard, now time.Time) metav1.Condition {
	g.Label, g.Wanted, g.Missing, g.Webhook, g.Called = s.label, s.wanted, s.missing, s.lacks, s.probe.called
	if mark.Weaker(s.wanted, s.label) && s.wanted != "" {
		g.Wanted = s.label // a stronger label keeps more, and is lowered after a while
	}
	if s.probe.failed {
		g.Probe = s.probe.message
	}
	c := budget.EnforcedOf(g, now)
	if c.Status == metav1.ConditionTrue && s.probe.called.IsZero() {
		c.Status, c.Reason = metav1.ConditionUnknown, budget.ReasonEnforcedNotProbed
		c.Message = "The guard has not answered a test request yet: " + s.probe.message
	}
	return c
}

// unsettled tells that the next answer to a probe will tell more.
func (p probe) unsettled() bool { return p.called.IsZero() && !p.failed }

// wantedOf returns the label that the budgets of a namespace need.
func wantedOf(budgets []policyv1beta1.PodUnavailableBudget, overlap, asked bool) string {
	if label, wanted := budget.NamespaceLabel(budgets, overlap, asked); wanted {
		return label
	}
	return ""
}
