package board

import (
	"slices"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
)

// spread is a WorkloadSpread with its subsets.
type spread struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Target    string   `json:"target"`
	Subsets   []Subset `json:"subsets"`
}

// Subset is a subset of a spread. It lacks -1 pods if it takes any number.
type Subset struct {
	Name     string `json:"name"`
	Replicas int32  `json:"replicas"`
	Missing  int32  `json:"missing"`
}

// addStatus adds the programs, and what needs attention, as the command status tells.
func (b *Board) addStatus(f *facts.Facts) {
	r := console.Status(f)
	r.Agent.Nodes, r.Agent.NotReady = nil, nil // as many as nodes
	b.Programs = []console.Program{r.Controller, r.Agent}
	if len(r.Unread) > 0 {
		b.Notes = append(b.Notes, Note{Needs, "not everything was read: more may need attention"})
	}
	all := []entry[console.Problem]{}
	for _, p := range r.Problems {
		all = append(all, entry[console.Problem]{key{p.Namespace(), p.Object}, func() console.Problem {
			return console.Problem{Severity: p.Severity, Object: short(p.Object), Reason: short(p.Reason), Message: short(p.Message), Remedy: short(p.Remedy)}
		}})
	}
	b.Needs = keep(b, Needs, "problems", all, mostNeeds)
	slices.SortStableFunc(b.Needs, console.Worse)
}

// spreads returns all spreads in the order of their names.
func spreads(f *facts.Facts) []entry[spread] {
	all := []entry[spread]{}
	for i := range f.Spreads {
		s, target := &f.Spreads[i], &f.Spreads[i].Spec.TargetReference
		all = append(all, entry[spread]{key{s.Namespace, s.Name}, func() spread {
			out := spread{s.Namespace, s.Name, short(target.Kind + "/" + target.Name), []Subset{}}
			for _, subset := range s.Status.SubsetStatuses[:min(len(s.Status.SubsetStatuses), mostSubsets)] {
				out.Subsets = append(out.Subsets, Subset{short(subset.Name), subset.Replicas, subset.MissingReplicas})
			}
			return out
		}})
	}
	slices.SortFunc(all, func(a, b entry[spread]) int { return a.compare(b.key) })
	return all
}
