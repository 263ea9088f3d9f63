package budget

import policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"

// NamespaceLabel is the value of the label limpet.dev/budgets for a namespace that has these
// budgets, and whether the label is wanted at all. A pod with several PodDisruptionBudgets
// wants it too: its evictions are answered here. One closed budget closes the namespace,
// because the API server cannot tell evictions apart by their pods. asked tells of pods that are out of service
// before they go.
func NamespaceLabel(budgets []policyv1beta1.PodUnavailableBudget, pdbOverlap, asked bool) (value string, wanted bool) {
	value = policyv1beta1.LabelBudgetsOpen
	if len(budgets) == 0 && !pdbOverlap {
		return policyv1beta1.LabelBudgetsAsked, asked
	}
	for i := range budgets {
		rules, _ := RulesOf(&budgets[i]) // an invalid annotation is reported elsewhere, and is Open here
		if rules.FailurePolicy == Closed {
			value = policyv1beta1.LabelBudgetsClosed
		}
	}
	return value, true
}
