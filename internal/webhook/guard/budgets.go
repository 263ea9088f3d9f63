package guard

import (
	"context"
	"fmt"
	"strings"

	"github.com/limpet-io/limpet/internal/disruption"
	"github.com/limpet-io/limpet/pkg/budget"
)

// Budgets is the guard that asks the budgets of a pod.
type Budgets struct{ By *disruption.Judge }

var _ Guard = Budgets{}

// Name is the guard's name.
func (b Budgets) Name() string { return "budgets" }

// Judge decides about one request.
func (b Budgets) Judge(ctx context.Context, r Request) (Verdict, error) {
	answer, err := b.By.Judge(ctx, r)
	if err != nil {
		return Verdict{}, err
	}
	return verdict(r, answer), nil
}

// verdict says an answer in the words of the webhook.
func verdict(r Request, a disruption.Answer) Verdict {
	v := Verdict{
		Refused: a.Verdict == budget.Refused,
		Gone:    a.Verdict == budget.Refused && a.Reason == budget.ReasonStale,
		Message: a.Message,
	}
	if a.Reason != budget.ReasonUnprotected {
		v.Audit = map[string]string{"vector": string(a.Vector), "verdict": string(a.Verdict), "reason": string(a.Reason)}
	}
	switch {
	case v.Refused:
		v.Causes = causes(a)
		if a.Offer != "" {
			v.Message += "\n" + a.Offer
		}
	case r.DryRun:
		v.Warnings = a.Left
	case a.Verdict == budget.Accounted && a.Reason == budget.ReasonPolicy:
		v.Warnings = []string{fmt.Sprintf("pod %s goes whatever its budgets say (%s), and takes a unit of each", r.Pod.Name, a.Vector)}
	}
	return v
}

// causes has one entry for each budget that refuses.
func causes(a disruption.Answer) []string {
	kind := "PodUnavailableBudget"
	if a.Reason == budget.ReasonPDB || a.Reason == budget.ReasonManyPDBs {
		kind = "PodDisruptionBudget"
	}
	var all []string
	for _, name := range a.Blocking {
		all = append(all, fmt.Sprintf("%s %s: %s", kind, name, a.Reason))
	}
	if len(all) == 0 {
		all = []string{strings.TrimSpace(string(a.Reason) + ": " + a.Message)}
	}
	return all
}
