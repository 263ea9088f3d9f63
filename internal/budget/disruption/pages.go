package disruption

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
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
	switch all := into.(type) {
	case *policyv1beta1.PodUnavailableBudgetList:
		return p.inPages(ctx, func() (client.ObjectList, func() int) {
			page := &policyv1beta1.PodUnavailableBudgetList{}
			return page, func() int {
				for i := range page.Items {
					all.Items = append(all.Items, *cluster.KeptBudget(&page.Items[i]))
				}
				return len(all.Items)
			}
		}, opts)
	case *limpetv1alpha1.DistributedPodDisruptionBudgetList:
		return p.inPages(ctx, func() (client.ObjectList, func() int) {
			page := &limpetv1alpha1.DistributedPodDisruptionBudgetList{}
			return page, func() int {
				for i := range page.Items {
					all.Items = append(all.Items, *cluster.KeptDistributedBudget(&page.Items[i]))
				}
				return len(all.Items)
			}
		}, opts)
	}
	return p.Reader.List(ctx, into, opts...)
}

// inPages lists page after page. next returns an empty page, and what keeps its objects once it is filled.
func (p pages) inPages(ctx context.Context, next func() (client.ObjectList, func() int), opts []client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	most, kept := options.Limit, 0
	for {
		options.Limit = budgetsOfPage
		if most > 0 {
			options.Limit = min(budgetsOfPage, most-int64(kept))
		}
		page, keep := next()
		if err := p.Reader.List(ctx, page, options); err != nil {
			return fmt.Errorf("list budgets after the first %d: %w", kept, err)
		}
		kept, options.Continue = keep(), page.GetContinue()
		if options.Continue == "" || most > 0 && int64(kept) >= most {
			return nil
		}
	}
}
