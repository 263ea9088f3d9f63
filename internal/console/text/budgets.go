package text

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/internal/console"
)

// perRow is how many pods of a ring a row has.
const perRow = 8

// signs draw what pods may do.
var signs = map[console.Stance]string{console.MayGo: "●", console.MustStay: "◆", console.Away: "○"}

// Budgets prints budgets, and the pods of those that were asked for.
func Budgets(w io.Writer, r console.BudgetReport) {
	var rows []string
	for _, b := range r.Budgets {
		share, groups := "-", "-"
		if b.Share != nil {
			share = fmt.Sprint(*b.Share)
		}
		if b.Groups > 0 {
			groups = fmt.Sprintf("%d, %d blocked", b.Groups, b.Blocked)
		}
		rows = append(rows, fmt.Sprintf("%s/%s\t%s\t%d\t%d/%d\t%s\t%s", b.Namespace, b.Name, b.Kind, b.Allowed, b.Healthy, b.Total, groups, share))
	}
	table(w, "BUDGET\tKIND\tALLOWED\tHEALTHY\tGROUPS\tSHARE", rows)
	if len(rows) == 0 {
		fmt.Fprintln(w, "There are no budgets.")
	}
	for _, b := range r.Budgets {
		for _, problem := range b.Problems {
			line(w, "%s/%s: peer %s", b.Namespace, b.Name, problem)
		}
	}
	for _, b := range r.Budgets {
		if len(b.Places) > 0 {
			fmt.Fprintln(w)
			ring(w, b.Places)
		}
	}
}

// ring draws what pods may do, in rows.
func ring(w io.Writer, pods []console.PodNow) {
	fmt.Fprintf(w, "%s may go   %s must stay   %s is away\n", signs[console.MayGo], signs[console.MustStay], signs[console.Away])
	for some := range slices.Chunk(pods, perRow) {
		var row strings.Builder
		for _, p := range some {
			fmt.Fprintf(&row, "  %s %s", signs[p.State], p.Pod)
		}
		line(w, "%s", row.String())
	}
}
