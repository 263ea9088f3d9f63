package budget

import (
	"time"

	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// idleTime is how long a namespace keeps a label that no budget needs. The API server stores a
// budget at most 34 s after the webhook that validates the budget has set the label.
const idleTime = time.Minute

// labelInput is what is known of the label of a namespace.
type labelInput struct {
	now time.Time
	// label and idle are those of the namespace; "" for none.
	label, idle string
	// wanted is the label that the budgets need; "" for none.
	wanted string
}

// labelDecision says how to change a namespace.
type labelDecision struct {
	change bool
	// label and idle are the new values; "" removes.
	label, idle string
	// lowers tells that the label is on its way to be removed, or to become open: it must be
	// the controller's, and no budget may need it that the cache does not show.
	lowers bool
	again  time.Duration
}

// strength orders labels by what they keep from happening.
var strength = map[string]int{policyv1beta1.LabelBudgetsOpen: 1, policyv1beta1.LabelBudgetsClosed: 2}

// plan decides about the label of a namespace. A label that budgets need is set at once. A
// label that none needs is lowered in two steps: first an annotation says since when the label
// is idle. The webhook that validates a budget removes the annotation, so that the wait begins
// again. So no budget is ever stored in a namespace that loses its label.
func (in labelInput) plan() labelDecision {
	if strength[in.wanted] >= strength[in.label] && (in.wanted != "" || in.label == "") {
		return labelDecision{change: in.label != in.wanted || in.idle != "", label: in.wanted}
	}
	since, err := time.Parse(time.RFC3339, in.idle)
	if err != nil || since.After(in.now) {
		return labelDecision{change: true, label: in.label, idle: in.now.UTC().Format(time.RFC3339), lowers: true, again: idleTime + time.Second}
	}
	if left := idleTime - in.now.Sub(since); left > 0 {
		return labelDecision{label: in.label, idle: in.idle, again: left + time.Second}
	}
	return labelDecision{change: true, label: in.wanted, lowers: true}
}
