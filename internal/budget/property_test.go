package budget_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const rounds = 5000

// random is a request about one of up to eight pods, which up to four budgets cover.
func random(r *rand.Rand) budget.Input {
	all := make([]budget.Pod, 1+r.IntN(8))
	for i := range all {
		all[i] = []budget.Pod{serving(i), serving(i), serving(i), young(i), unready(i)}[r.IntN(5)]
	}
	in := evict(all[r.IntN(len(all))], book())
	in.Vector = []budget.Vector{
		budget.Evict, budget.Delete, budget.ScaleIn, budget.Update, budget.Resize, budget.Preemption, budget.AdminTaint, budget.Teardown, budget.Leave,
	}[r.IntN(9)]
	for i := range r.IntN(5) {
		in.Budgets = append(in.Budgets, randomBudget(r, i, in, all))
	}
	for _, p := range all {
		if r.IntN(4) == 0 {
			in.Book.Entries[p.UID] = book(p).Entries[p.UID]
		}
	}
	return in
}

func randomBudget(r *rand.Rand, i int, in budget.Input, all []budget.Pod) budget.Budget {
	var covered []budget.Pod
	for _, p := range all {
		if p.UID == in.Pod.UID || r.IntN(2) == 0 {
			covered = append(covered, p)
		}
	}
	number := []string{fmt.Sprint(r.IntN(5)), fmt.Sprintf("%d%%", r.IntN(101))}[r.IntN(2)]
	b := most(number, covered)
	if r.IntN(2) == 0 {
		b = least(number, covered)
	}
	b = named(fmt.Sprintf("b%d", i), b)
	b.Expected += int32(r.IntN(3) - 1)
	b.Leaves = in.Vector == budget.Leave && r.IntN(2) == 0
	b.Exempt = r.IntN(10) == 0
	if r.IntN(4) == 0 {
		b.Rules.Operations = []policyv1beta1.Operation{[]policyv1beta1.Operation{
			policyv1beta1.OperationDelete, policyv1beta1.OperationUpdate, policyv1beta1.OperationEvict, policyv1beta1.OperationResize,
		}[r.IntN(4)]}
	}
	if r.IntN(6) == 0 {
		b.Rules.Vectors = map[budget.Vector]budget.Policy{in.Vector: []budget.Policy{budget.Check, budget.Allow}[r.IntN(2)]}
	}
	return b
}

// short tells, without the code under test, whether a budget would have too few available
// pods if the pod of the request went, and whether the budget may refuse that.
func short(in budget.Input, b budget.Budget) (below, judged bool) {
	desired, known := budget.DesiredOf(b.MaxUnavailable, b.MinAvailable, b.Expected, b.Unknown == "")
	if in.Vector == budget.ScaleIn {
		desired = min(desired, b.Expected) // the workload wants no more pods
	}
	left := 0
	for _, p := range b.Pods {
		if _, used := in.Book.Entries[p.UID]; p.Available && !used && p.UID != in.Pod.UID {
			left++
		}
	}
	policy, overridden := b.Rules.Vectors[in.Vector]
	if !overridden {
		policy = in.Vector.Default()
	}
	judged = policy == budget.Check && !b.Exempt && slices.Contains(b.Rules.Operations, in.Vector.Operation()) &&
		(in.Vector != budget.Leave || b.Leaves)
	return !known || left < int(desired), judged
}

// A pod that serves is refused if, and only if, a budget that judges would come, or stay,
// below its number. So nothing ends below a budget, and nothing is refused without a cause.
func TestPlanRefusesExactlyWhatWouldEndBelowABudget(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	seen := map[budget.Verdict]int{}
	for range rounds {
		in := random(r)
		var want []string
		for _, b := range in.Budgets {
			if below, judged := short(in, b); below && judged && in.Pod.Serving {
				want = append(want, b.Name)
			}
		}
		d := budget.Plan(in)
		seen[d.Verdict]++
		if diff := cmp.Diff(want, d.Blocking, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("blocking (-want +got):\n%s\n%+v\n%+v", diff, d, in)
		}
		if (len(want) > 0) != (d.Verdict == budget.Refused) {
			t.Fatalf("decision %+v, want a refusal by %v\n%+v", d, want, in)
		}
	}
	if len(seen) != 3 {
		t.Errorf("verdicts %v, want all three", seen)
	}
}

func TestPlanIsTheIntersectionOfItsBudgets(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range rounds {
		in := random(r)
		var want []string
		for _, b := range in.Budgets {
			alone := in
			alone.Budgets = []budget.Budget{b}
			if budget.Plan(alone).Verdict == budget.Refused {
				want = append(want, b.Name)
			}
		}
		if d := budget.Plan(in); !slices.Equal(d.Blocking, want) {
			t.Fatalf("blocking %v, want %v, the budgets that refuse alone\n%+v", d.Blocking, want, in)
		}
	}
}

func TestPlanDoesNotDependOnTheOrderOfBudgets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range rounds {
		in := random(r)
		want := budget.Plan(in)
		shuffled := in
		shuffled.Budgets = slices.Clone(in.Budgets)
		r.Shuffle(len(shuffled.Budgets), func(i, j int) {
			shuffled.Budgets[i], shuffled.Budgets[j] = shuffled.Budgets[j], shuffled.Budgets[i]
		})
		for i := range shuffled.Budgets {
			p := slices.Clone(shuffled.Budgets[i].Pods)
			r.Shuffle(len(p), func(a, b int) { p[a], p[b] = p[b], p[a] })
			shuffled.Budgets[i].Pods = p
		}
		if diff := cmp.Diff(want, budget.Plan(shuffled)); diff != "" {
			t.Fatalf("another order (-want +got):\n%s\n%+v", diff, in)
		}
	}
}

// More units never refuse what fewer units allow: a higher maximum, a lower minimum, a further
// available pod, an entry less.
func TestPlanIsMonotoneInUnits(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	refused := 0
	for range rounds {
		in := random(r)
		if budget.Plan(in).Verdict == budget.Refused {
			refused++
			continue
		}
		richer := in
		richer.Budgets = slices.Clone(in.Budgets)
		for i := range richer.Budgets {
			b := &richer.Budgets[i]
			if b.MaxUnavailable != nil && b.MaxUnavailable.StrVal == "" {
				b.MaxUnavailable = limit(fmt.Sprint(b.MaxUnavailable.IntVal + int32(r.IntN(2))))
			}
			if b.MinAvailable != nil && b.MinAvailable.StrVal == "" {
				b.MinAvailable = limit(fmt.Sprint(max(b.MinAvailable.IntVal-int32(r.IntN(2)), 0)))
			}
			if r.IntN(2) == 0 {
				b.Pods = append(slices.Clone(b.Pods), serving(100))
			}
		}
		richer.Book = book()
		for uid, e := range in.Book.Entries {
			if r.IntN(2) == 0 {
				richer.Book.Entries[uid] = e
			}
		}
		if d := budget.Plan(richer); d.Verdict == budget.Refused {
			t.Fatalf("more units, and a refusal: %+v\n%+v\n%+v", d, in, richer)
		}
	}
	if refused == 0 || refused == rounds {
		t.Errorf("%d of %d requests refused: the test says nothing", refused, rounds)
	}
}

// Pods that go one after the other, in any order and in any way that budgets judge, never
// bring a budget below its number, or further below.
func TestPlanKeepsBudgetsOverASequence(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	went := 0
	for range rounds / 10 {
		in := random(r)
		in.Vector = budget.Evict
		for i := range in.Budgets {
			in.Budgets[i].Rules, in.Budgets[i].Exempt, in.Budgets[i].Leaves = defaultRules(), false, false
		}
		for range 30 {
			in.Pod = []budget.Pod{serving(r.IntN(8)), unready(r.IntN(8))}[r.IntN(2)]
			if i := slices.IndexFunc(in.Budgets, func(b budget.Budget) bool { return len(b.Pods) > 0 }); i >= 0 {
				in.Pod = in.Budgets[i].Pods[r.IntN(len(in.Budgets[i].Pods))]
			}
			went += step(t, &in)
		}
	}
	if went == 0 {
		t.Error("no pod went: the test says nothing")
	}
}

// step asks about one pod, enters it, and compares the numbers of the budgets that cover it.
func step(t *testing.T, in *budget.Input) int {
	t.Helper()
	all := in.Budgets
	defer func() { in.Budgets = all }()
	in.Budgets = nil
	for _, b := range all {
		if slices.ContainsFunc(b.Pods, func(p budget.Pod) bool { return p.UID == in.Pod.UID }) {
			in.Budgets = append(in.Budgets, b)
		}
	}
	d := budget.Plan(*in)
	if !d.Take {
		return 0
	}
	after := ledger.Book{Entries: map[string]ledger.Entry{}}
	maps.Copy(after.Entries, in.Book.Entries)
	after.Entries[in.Pod.UID] = in.Entry()
	for _, b := range in.Budgets {
		was, is := budget.Count(b, in.Book, now), budget.Count(b, after, now)
		if is.Current < is.Desired && is.Current < was.Current {
			t.Fatalf("%s falls from %+v to %+v by %+v", b.Name, was, is, in.Pod)
		}
	}
	in.Book = after
	if again := budget.Plan(*in); again.Verdict != budget.Allowed || again.Take && in.Pod.Serving || again.Reason != budget.ReasonTaken {
		t.Fatalf("the second call: %+v, want the same answer and no further unit", again)
	}
	return 1
}

// The status and the answers agree: while units are shown, an available pod may go, and
// without surplus pods no pod may go when none is shown.
func TestCountAgreesWithPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range rounds {
		in := random(r)
		in.Vector = budget.Evict
		all := pods(1 + r.IntN(8))
		in.Pod = all[0]
		delete(in.Book.Entries, in.Pod.UID)
		b := randomBudget(r, 0, in, all)
		b.Rules, b.Exempt = defaultRules(), false
		in.Budgets = []budget.Budget{b}
		n, d := budget.Count(b, in.Book, now), budget.Plan(in)
		most, _ := budget.DesiredOf(nil, b.MaxUnavailable, b.Expected, true) // rounds alike
		switch {
		case n.Allowed > 0 && d.Verdict == budget.Refused:
			t.Fatalf("%+v are shown, and the pod is refused: %+v", n, d)
		case n.Allowed == 0 && n.Desired > 0 && n.Current <= n.Total && d.Verdict != budget.Refused:
			t.Fatalf("%+v are shown, and the pod may go: %+v", n, d)
		case b.MaxUnavailable != nil && n.Allowed > most:
			t.Fatalf("%d units are shown, above maxUnavailable %s", n.Allowed, b.MaxUnavailable)
		}
	}
}
