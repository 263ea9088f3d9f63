package budget_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/groups"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// row are the pods of a StatefulSet, each at its place.
func row(n int) (budget.Budget, budget.Members) {
	b, m := budget.Budget{Name: budget.NameOf("db"), Rules: defaultRules()}, budget.Members{Sizes: groups.Sizes{At: map[string]int32{}}}
	for i := range n {
		name := fmt.Sprint("db-", i)
		b.Pods = append(b.Pods, budget.Pod{UID: name, Name: name, Available: true, Serving: true, Ready: true})
		m.Places, m.Sizes.At[name] = append(m.Places, name), 1
	}
	return b, m
}

// TestNoGroupLosesMoreThanItsUnits lets pods of rings and rows go and come back at random. Whatever is let go, no window
// has more pods away than it may; and a pod that is refused would have broken one.
func TestNoGroupLosesMoreThanItsUnits(t *testing.T) {
	random, now := rand.New(rand.NewPCG(5, 6)), time.Unix(1000, 0)
	for range 300 {
		n, size := 1+random.IntN(12), 1+random.Int32N(5)
		spec := &limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{
			OrderBy: limpetv1alpha1.OrderOrdinal, Size: size, Step: 1 + random.Int32N(size), Wrap: random.IntN(2) == 0,
		}}
		whole, m := row(n)
		most := random.Int32N(3)
		whole.MaxUnavailable = new(intstr.FromInt32(most))
		windows := groups.Of(spec, ringOrder(m.Places))
		book := ledger.Book{Entries: map[string]ledger.Entry{}}
		fits := func(more string) bool {
			return !slices.ContainsFunc(windows, func(g groups.Group) bool {
				away := int32(0)
				for _, place := range g.Places {
					if _, gone := book.Entries[place]; gone || place == more {
						away++
					}
				}
				return away > most && (more == "" || slices.Contains(g.Places, more))
			})
		}
		for range 60 {
			i := random.IntN(n)
			pod := whole.Pods[i]
			if _, gone := book.Entries[pod.UID]; gone {
				delete(book.Entries, pod.UID) // it came back
				continue
			}
			in := budget.Input{Now: now, Vector: budget.Evict, Pod: pod, By: "bob", Book: book, Budgets: budget.Split(whole, spec, m, &m.Places[i])}
			d := budget.Plan(in)
			if allowed := d.Verdict == budget.Allowed; allowed != fits(pod.UID) {
				t.Fatalf("%d pods, %+v, at most %d: %s %s, the windows allow it: %v\n%s", n, spec.Sliding, most, pod.Name, d.Verdict, fits(pod.UID), d.Message)
			}
			if d.Verdict == budget.Allowed {
				book.Entries[pod.UID] = in.Entry()
			}
			if !fits("") {
				t.Fatalf("%d pods, %+v, at most %d: too many are away: %v", n, spec.Sliding, most, book.Entries)
			}
		}
	}
}

func ringOrder(places []string) []string {
	places = slices.Clone(places)
	groups.Sort(places)
	return places
}

// TestTogether counts what a drain of everything would let go at once.
func TestTogether(t *testing.T) {
	ring := func(size int32) *limpetv1alpha1.BudgetGroups {
		return &limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{OrderBy: limpetv1alpha1.OrderOrdinal, Size: size, Wrap: true}}
	}
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		pods int
		spec *limpetv1alpha1.BudgetGroups
		away []string
		want int32
	}{
		{9, ring(3), nil, 3},
		{9, ring(5), nil, 1},
		{9, ring(3), []string{"db-0"}, 2},
		{9, ring(3), []string{"db-1", "db-4", "db-7"}, 0},
		{9, nil, nil, 1},
		{9, ring(1), nil, 9},
	} {
		whole, m := row(tc.pods)
		whole.MaxUnavailable = new(intstr.FromInt32(1))
		book := ledger.Book{Entries: map[string]ledger.Entry{}}
		for _, pod := range tc.away {
			book.Entries[pod] = ledger.Entry{UID: pod, Use: ledger.Gone, Expires: now.Add(time.Minute)}
		}
		if tc.spec == nil {
			m.Places, m.Sizes.At = make([]string, tc.pods), map[string]int32{"": int32(tc.pods)}
		}
		if got := budget.Together(budget.Split(whole, tc.spec, m, nil), book, now); got != tc.want {
			t.Errorf("%+v without %v: %d may go together, want %d", tc.spec, tc.away, got, tc.want)
		}
	}
}
