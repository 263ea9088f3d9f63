package disruption

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// budgetsOfPage is how many budgets one answer of the API server has. A budget has 350 KB at the most, and an answer
// less than 3 MB. Invented managed fields make a budget as large as an object may be, and an answer up to 12 MB.
const budgetsOfPage = 8

// pages is a reader that lists budgets in small pages, and keeps of each budget what the cache keeps. A list of one
// answer would hold all the text of all budgets of a tenant in memory, several times while it is decoded.
type pages struct{ client.Reader }

// List lists budgets, or anything else as before.
func (p pages) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	all, ok := into.(*policyv1beta1.PodUnavailableBudgetList)
	if !ok {
		return p.Reader.List(ctx, into, opts...)
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	most := options.Limit
	for {
		options.Limit = budgetsOfPage
		if most > 0 {
			options.Limit = min(budgetsOfPage, most-int64(len(all.Items)))
		}
		var page policyv1beta1.PodUnavailableBudgetList
		if err := p.Reader.List(ctx, &page, options); err != nil {
			return fmt.Errorf("list budgets after the first %d: %w", len(all.Items), err)
		}
		for i := range page.Items {
			all.Items = append(all.Items, *cluster.KeptBudget(&page.Items[i]))
		}
		all.ListMeta, options.Continue = page.ListMeta, page.Continue
		if options.Continue == "" || most > 0 && int64(len(all.Items)) >= most {
			return nil
		}
	}
}
