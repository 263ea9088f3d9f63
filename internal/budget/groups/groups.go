package groups

import (
	"slices"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Group is a group of places. One without a name has all pods of its budget.
type Group struct {
	Name   string
	Places []string
}

// Of returns the groups of places, in order. The places are sorted by Sort, and each is there once.
// Pods without a place have the place "".
func Of(spec *limpetv1alpha1.BudgetGroups, places []string) (all []Group) {
	if spec == nil {
		return []Group{{Places: places}}
	}
	if placeless := slices.Index(places, ""); placeless >= 0 {
		all = append(all, Group{Name: "without " + what(spec), Places: []string{""}})
		places = slices.Delete(slices.Clone(places), placeless, placeless+1)
	}
	if spec.Sliding == nil {
		for _, place := range places {
			all = append(all, Group{Name: spec.ByLabel + "=" + place, Places: []string{place}})
		}
		return all
	}
	for _, start := range starts(len(places), spec.Sliding) {
		all = append(all, window(spec.Sliding, places, start))
	}
	return all
}

// With returns the groups of one place.
func With(spec *limpetv1alpha1.BudgetGroups, places []string, place string) []Group {
	switch {
	case spec == nil:
	case place == "":
		places = []string{place}
	case spec.Sliding == nil:
		places = []string{place} // without the others
	}
	return slices.DeleteFunc(Of(spec, places), func(g Group) bool { return !slices.Contains(g.Places, place) && g.Name != "" })
}

// Most is how many groups one place may have.
func Most(spec *limpetv1alpha1.BudgetGroups) int {
	if spec == nil || spec.Sliding == nil {
		return 1
	}
	return 2 + int(spec.Sliding.Size)/step(spec.Sliding) // the last window of a row is moved back
}

// what says what a place is.
func what(spec *limpetv1alpha1.BudgetGroups) string {
	switch s := spec.Sliding; {
	case s == nil:
		return spec.ByLabel
	case s.OrderBy == limpetv1alpha1.OrderLabel:
		return s.Label
	}
	return "ordinal"
}

// window returns the places from a start on. It goes on at the first place after the last one.
func window(s *limpetv1alpha1.SlidingGroups, places []string, start int) Group {
	n := min(int(s.Size), len(places))
	g := Group{Places: make([]string, n)}
	for i := range n {
		g.Places[i] = places[(start+i)%len(places)]
	}
	if g.Name = g.Places[0]; n > 1 {
		g.Name += ".." + g.Places[n-1]
	}
	if s.OrderBy == limpetv1alpha1.OrderLabel {
		g.Name = s.Label + "=" + g.Name
	}
	return g
}

// starts returns where the windows of n places begin. The last window of a row ends at the last
// place, so that each window has the full size. A row that is shorter than a window is one window.
func starts(n int, s *limpetv1alpha1.SlidingGroups) (all []int) {
	size := int(s.Size)
	switch {
	case n == 0:
		return nil
	case n <= size:
		return []int{0}
	}
	end := n - size // the start of the last window
	if s.Wrap {
		end = n
	}
	for start := 0; start < end; start += step(s) {
		all = append(all, start)
	}
	if !s.Wrap {
		all = append(all, end)
	}
	return all
}

func step(s *limpetv1alpha1.SlidingGroups) int { return max(int(s.Step), 1) }
