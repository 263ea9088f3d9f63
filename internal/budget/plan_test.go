package budget_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

func TestPlan(t *testing.T) {
	type change = func(*budget.Input)
	vector := func(v budget.Vector) change { return func(in *budget.Input) { in.Vector = v } }
	allowed := func(reason budget.Reason, take bool) budget.Decision {
		return budget.Decision{Verdict: budget.Allowed, Reason: reason, Take: take}
	}
	accounted := func(reason budget.Reason) budget.Decision {
		return budget.Decision{Verdict: budget.Accounted, Reason: reason, Take: true}
	}
	refused := func(reason budget.Reason, blocking ...string) budget.Decision {
		return budget.Decision{Verdict: budget.Refused, Reason: reason, Blocking: blocking}
	}
	finished := serving(0)
	finished.Finished = true
	onlyEvict := func(b *budget.Budget) { b.Rules.Operations = []policyv1beta1.Operation{policyv1beta1.OperationEvict} }
	override := func(v budget.Vector, p budget.Policy) func(*budget.Budget) {
		return func(b *budget.Budget) { b.Rules.Vectors = map[budget.Vector]budget.Policy{v: p} }
	}
	unknown := func(b *budget.Budget) { b.Unknown = "no scale" }
	expect := func(n int32) func(*budget.Budget) { return func(b *budget.Budget) { b.Expected = n } }
	leaves := func(b *budget.Budget) { b.Leaves = true }
	keeps := func(b *budget.Budget) { b.Rules.KeepPlace = true }
	lostAddress := func(in *budget.Input) { in.Place = budget.Place{Asked: true, Address: "the lease ends"} }
	lostNode := func(in *budget.Input) { in.Place = budget.Place{Asked: true, Node: "no room"} }

	cases := map[string]struct {
		in     budget.Input
		change change
		want   budget.Decision
	}{
		"a unit is left":                {evict(serving(0), book(), most("1", pods(3))), nil, allowed(budget.ReasonUnits, true)},
		"no unit is left":               {evict(serving(0), book(serving(1)), most("1", pods(3))), nil, refused(budget.ReasonExhausted, "web")},
		"a pod is not Ready":            {evict(serving(0), book(), most("1", append(pods(2), unready(2)))), nil, refused(budget.ReasonExhausted, "web")},
		"a pod is not created yet":      {evict(serving(0), book(), with(most("1", pods(3)), expect(4))), nil, refused(budget.ReasonExhausted, "web")},
		"the budget is empty":           {evict(serving(0), book(), most("0", pods(3))), nil, refused(budget.ReasonExhausted, "web")},
		"0% may go":                     {evict(serving(0), book(), most("0%", pods(3))), nil, refused(budget.ReasonExhausted, "web")},
		"a number above the size":       {evict(serving(0), book(), least("100", pods(10))), nil, refused(budget.ReasonExhausted, "web")},
		"100% may go":                   {evict(serving(0), book(pods(3)[1:]...), most("100%", pods(3))), nil, allowed(budget.ReasonUnits, true)},
		"scaled to zero":                {evict(serving(0), book(pods(3)[1:]...), with(most("1", pods(3)), expect(0))), nil, allowed(budget.ReasonUnits, true)},
		"scaled in, and the number not": {evict(serving(0), book(), with(least("3", pods(3)), expect(1))), vector(budget.ScaleIn), allowed(budget.ReasonUnits, true)},
		"the last of a smaller number":  {evict(serving(0), book(), with(least("3", pods(1)), expect(1))), vector(budget.ScaleIn), refused(budget.ReasonExhausted, "web")},
		"scaled to zero, of a number":   {evict(serving(0), book(), with(least("2", pods(1)), expect(0))), vector(budget.ScaleIn), allowed(budget.ReasonUnits, true)},
		"evicted at a smaller number":   {evict(serving(0), book(), with(least("3", pods(3)), expect(1))), nil, refused(budget.ReasonExhausted, "web")},
		"scaled in, by the new size":    {evict(serving(0), book(), with(most("1", pods(5)), expect(3))), vector(budget.ScaleIn), allowed(budget.ReasonUnits, true)},
		"scaled in, below the new size": {evict(serving(0), book(), with(most("1", pods(2)), expect(3))), vector(budget.ScaleIn), refused(budget.ReasonExhausted, "web")},
		"a surplus pod, and none may go": {
			evict(serving(0), book(), with(most("0", pods(4)), expect(3))), vector(budget.Delete), allowed(budget.ReasonUnits, true),
		},

		// the pod itself
		"the pod is not Ready":                {evict(unready(0), book(), most("0", append(pods(3)[1:], unready(0)))), nil, allowed(budget.ReasonNotAvailable, true)},
		"the pod terminates":                  {evict(finished, book(), most("0", []budget.Pod{finished})), nil, allowed(budget.ReasonNotAvailable, false)},
		"all pods are young":                  {evict(young(0), book(), most("1", []budget.Pod{young(0), young(1), young(2)})), nil, refused(budget.ReasonExhausted, "web")},
		"a young pod, and enough others":      {evict(young(0), book(), most("1", append([]budget.Pod{young(0)}, pods(3)[1:]...))), nil, allowed(budget.ReasonUnits, true)},
		"the pod has a unit":                  {evict(serving(0), book(serving(0)), most("1", pods(3))), nil, allowed(budget.ReasonTaken, false)},
		"the pod has a unit, of a delete":     {evict(serving(0), book(serving(0)), most("1", pods(3))), vector(budget.Delete), allowed(budget.ReasonTaken, false)},
		"the pod has a unit, and one is lost": {evict(serving(0), book(serving(0)), most("1", append(pods(2), unready(2)))), vector(budget.Delete), refused(budget.ReasonExhausted, "web")},
		"preemption took a unit that is none": {evict(serving(0), book(serving(0)), most("0", pods(3))), vector(budget.Delete), refused(budget.ReasonExhausted, "web")},
		"preemption again":                    {evict(serving(0), book(serving(0)), most("0", pods(3))), vector(budget.Preemption), allowed(budget.ReasonTaken, false)},
		"another pod of the name has a unit":  {evict(budget.Pod{UID: "u-9", Name: "web-0", Serving: true}, book(serving(0)), most("1", append(pods(3)[1:], budget.Pod{UID: "u-9", Name: "web-0", Serving: true, Available: true}))), nil, allowed(budget.ReasonUnits, true)},
		"the cache does not have the pod yet": {evict(serving(9), book(), most("1", pods(2))), nil, allowed(budget.ReasonUnits, true)},
		"nor enough others":                   {evict(serving(9), book(), with(most("1", pods(2)), expect(4))), nil, refused(budget.ReasonExhausted, "web")},

		"broken, and protected":              {evict(broken(0), book(), protects(most("1", []budget.Pod{broken(0), broken(1), serving(2)}))), nil, refused(budget.ReasonExhausted, "web")},
		"broken, protected, and alone":       {evict(broken(0), book(), protects(most("1", append(pods(3)[1:], broken(0))))), nil, allowed(budget.ReasonNotAvailable, true)},
		"never started, and protected":       {evict(pending(0), book(), protects(most("0", []budget.Pod{pending(0)}))), nil, allowed(budget.ReasonNotAvailable, true)},
		"broken by a dead node, by default":  {evict(broken(0), book(), protects(most("1", []budget.Pod{broken(0), broken(1)}))), vector(budget.Taint), accounted(budget.ReasonPolicy)},
		"broken by a dead node, and checked": {evict(broken(0), book(), with(protects(most("1", []budget.Pod{broken(0), broken(1)})), override(budget.Taint, budget.Check))), vector(budget.Taint), refused(budget.ReasonExhausted, "web")},

		// sizes
		"the size is unknown":                   {evict(serving(0), book(), with(most("1", pods(3)), unknown)), nil, refused(budget.ReasonUnknownSize, "web")},
		"the size is unknown and needless":      {evict(serving(0), book(), with(least("1", pods(3)), unknown)), nil, allowed(budget.ReasonUnits, true)},
		"the size is unknown, of a broken pod":  {evict(unready(0), book(), with(most("1", []budget.Pod{unready(0)}), unknown)), nil, allowed(budget.ReasonNotAvailable, true)},
		"the size is unknown in a teardown":     {evict(serving(0), book(), with(most("1", pods(3)), unknown)), vector(budget.Teardown), accounted(budget.ReasonPolicy)},
		"unknown in a teardown that is checked": {evict(serving(0), book(), with(with(most("1", pods(3)), unknown), override(budget.Teardown, budget.Check))), vector(budget.Teardown), allowed(budget.ReasonUnits, true)},
		"the number is malformed":               {evict(serving(0), book(), most("half", pods(3))), nil, refused(budget.ReasonUnknownSize, "web")},

		// vectors and operations
		"nothing is disrupted":             {evict(serving(0), book(), most("0", pods(3))), vector(budget.None), allowed(budget.ReasonUnprotected, false)},
		"no budget covers the pod":         {evict(serving(0), book()), nil, allowed(budget.ReasonUnprotected, false)},
		"preemption":                       {evict(serving(0), book(), most("0", pods(3))), vector(budget.Preemption), accounted(budget.ReasonPolicy)},
		"preemption that is checked":       {evict(serving(0), book(), with(most("0", pods(3)), override(budget.Preemption, budget.Check))), vector(budget.Preemption), refused(budget.ReasonExhausted, "web")},
		"an unreachable node":              {evict(serving(0), book(), most("0", pods(3))), vector(budget.Taint), accounted(budget.ReasonPolicy)},
		"an administrator's taint":         {evict(serving(0), book(), most("0", pods(3))), vector(budget.AdminTaint), refused(budget.ReasonExhausted, "web")},
		"PodGC":                            {evict(serving(0), book(), most("0", pods(3))), vector(budget.PodGC), accounted(budget.ReasonPolicy)},
		"PodGC cannot be checked":          {evict(serving(0), book(), with(most("0", pods(3)), override(budget.PodGC, budget.Check))), vector(budget.PodGC), accounted(budget.ReasonPolicy)},
		"the end of a node":                {evict(serving(0), book(), most("0", pods(3))), vector(budget.NodeEnd), accounted(budget.ReasonPolicy)},
		"the end of a node is checked":     {evict(serving(0), book(), with(most("0", pods(3)), override(budget.NodeEnd, budget.Check))), vector(budget.NodeEnd), refused(budget.ReasonExhausted, "web")},
		"teardown":                         {evict(serving(0), book(), least("3", pods(3))), vector(budget.Teardown), accounted(budget.ReasonPolicy)},
		"Limpet itself":                    {evict(serving(0), book(), most("0", pods(3))), vector(budget.Limpet), refused(budget.ReasonExhausted, "web")},
		"scale-in that is allowed":         {evict(serving(0), book(), with(most("0", pods(3)), override(budget.ScaleIn, budget.Allow))), vector(budget.ScaleIn), accounted(budget.ReasonPolicy)},
		"an operation without protection":  {evict(serving(0), book(), with(most("0", pods(3)), onlyEvict)), vector(budget.Delete), accounted(budget.ReasonUnprotected)},
		"an exempt pod":                    {evict(serving(0), book(), with(most("0", pods(3)), func(b *budget.Budget) { b.Exempt = true })), nil, accounted(budget.ReasonUnprotected)},
		"a resize":                         {evict(serving(0), book(), most("0", pods(3))), vector(budget.Resize), refused(budget.ReasonExhausted, "web")},
		"an update":                        {evict(serving(0), book(), most("0", pods(3))), vector(budget.Update), refused(budget.ReasonExhausted, "web")},
		"leaving one of two budgets":       {evict(serving(0), book(), most("0", pods(3)), named("b", with(most("1", pods(3)), leaves))), vector(budget.Leave), allowed(budget.ReasonUnits, true)},
		"leaving an exhausted budget":      {evict(serving(0), book(), most("1", pods(3)), named("b", with(most("0", pods(3)), leaves))), vector(budget.Leave), refused(budget.ReasonExhausted, "b")},
		"an update that leaves, too":       {evict(serving(0), book(), with(with(most("0", pods(3)), leaves), override(budget.Update, budget.Allow))), vector(budget.Update), refused(budget.ReasonExhausted, "web")},
		"an update that is allowed, alone": {evict(serving(0), book(), with(most("0", pods(3)), override(budget.Update, budget.Allow))), vector(budget.Update), accounted(budget.ReasonPolicy)},

		// several budgets
		"both have a unit":        {evict(serving(0), book(), named("a", most("1", pods(3))), named("b", most("2", pods(3)))), nil, allowed(budget.ReasonUnits, true)},
		"one has none":            {evict(serving(0), book(), named("a", most("1", pods(3))), named("b", most("0", pods(3)))), nil, refused(budget.ReasonExhausted, "b")},
		"both have none":          {evict(serving(0), book(), named("b", most("0", pods(3))), named("a", most("0", pods(3)))), nil, refused(budget.ReasonExhausted, "a", "b")},
		"one allows by policy":    {evict(serving(0), book(), named("a", most("1", pods(3))), named("b", with(most("0", pods(3)), override(budget.Evict, budget.Allow)))), nil, allowed(budget.ReasonUnits, true)},
		"two reasons at once":     {evict(serving(0), book(), named("a", most("0", pods(3))), named("b", with(most("1", pods(3)), unknown))), nil, refused(budget.ReasonUnknownSize, "a", "b")},
		"one has no unit, of two": {evict(serving(0), book(serving(1)), named("a", most("1", pods(3))), named("b", most("2", pods(3)))), nil, refused(budget.ReasonExhausted, "a")},

		// places
		"the address would be lost":              {evict(serving(0), book(), with(most("1", pods(3)), keeps)), lostAddress, refused(budget.ReasonAddress, "web")},
		"no node would take the pod":             {evict(serving(0), book(), with(most("1", pods(3)), keeps)), lostNode, refused(budget.ReasonNode, "web")},
		"the address of a broken pod":            {evict(unready(0), book(), with(most("1", []budget.Pod{unready(0)}), keeps)), lostAddress, refused(budget.ReasonAddress, "web")},
		"the budget keeps no places":             {evict(serving(0), book(), most("1", pods(3))), lostAddress, allowed(budget.ReasonUnits, true)},
		"the pod asks for none":                  {evict(serving(0), book(), with(most("1", pods(3)), keeps)), func(in *budget.Input) { lostAddress(in); in.Place.Asked = false }, allowed(budget.ReasonUnits, true)},
		"the place is kept":                      {evict(serving(0), book(), with(most("1", pods(3)), keeps)), func(in *budget.Input) { in.Place.Asked = true }, allowed(budget.ReasonUnits, true)},
		"a pod that is scaled in":                {evict(serving(0), book(), with(with(most("1", pods(3)), keeps), expect(2))), func(in *budget.Input) { lostAddress(in); in.Vector = budget.ScaleIn }, allowed(budget.ReasonUnits, true)},
		"an update in place":                     {evict(serving(0), book(), with(most("1", pods(3)), keeps)), func(in *budget.Input) { lostAddress(in); in.Vector = budget.Update }, allowed(budget.ReasonUnits, true)},
		"preemption does not look at the place":  {evict(serving(0), book(), with(most("1", pods(3)), keeps)), func(in *budget.Input) { lostAddress(in); in.Vector = budget.Preemption }, accounted(budget.ReasonPolicy)},
		"a unit, and the place, of two budgets":  {evict(serving(0), book(), named("a", with(most("1", pods(3)), keeps)), named("b", most("0", pods(3)))), lostAddress, refused(budget.ReasonExhausted, "a", "b")},
		"a pod at another address than its kept": {evict(func() budget.Pod { p := serving(0); p.Displaced = true; return p }(), book(), with(most("1", append(pods(3)[1:], func() budget.Pod { p := serving(0); p.Displaced = true; return p }())), keeps)), nil, allowed(budget.ReasonUnits, true)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.change != nil {
				tc.change(&tc.in)
			}
			got := budget.Plan(tc.in)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(budget.Decision{}, "Message"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("decision (-want +got):\n%s\n%s", diff, got.Message)
			}
			if (got.Message != "") != (got.Verdict == budget.Refused) {
				t.Errorf("verdict %s with the message %q", got.Verdict, got.Message)
			}
		})
	}
}

// A budget before its first reconcile has an empty status, and decides alike.
func TestPlanNeedsNoStatus(t *testing.T) {
	pub := annotated()
	pub.Spec.MaxUnavailable = limit("1")
	b, err := budget.Of(pub)
	if err != nil {
		t.Fatal(err)
	}
	b.Expected, b.Pods = 3, pods(3)
	if d := budget.Plan(evict(serving(0), book(), b)); d.Verdict != budget.Allowed {
		t.Errorf("first pod: %+v", d)
	}
	if d := budget.Plan(evict(serving(1), book(serving(0)), b)); d.Verdict != budget.Refused {
		t.Errorf("second pod: %+v", d)
	}
}

// An entry lasts from the admission to the last moment at which the API server may write.
// A request that comes later may be written later.
func TestPlanRenewsAnEntry(t *testing.T) {
	entered := func(ago time.Duration, use ledger.Use) ledger.Book {
		b := book(serving(0))
		e := b.Entries["u-0"]
		e.Since, e.Expires, e.Use = now.Add(-ago), now.Add(ledger.Bound-ago), use
		e.Version = "7"
		b.Entries["u-0"] = e
		return b
	}
	cases := map[string]struct {
		ago     time.Duration
		use     ledger.Use
		vector  budget.Vector
		take    bool
		want    ledger.Use
		changed bool // the pod was changed since the first request
	}{
		"a second call of one request":        {time.Second, ledger.Gone, budget.Delete, false, ledger.Gone, false},
		"a request that may be written late":  {7 * time.Second, ledger.Gone, budget.Delete, true, ledger.Gone, false},
		"a deletion after an update":          {time.Second, ledger.Changed, budget.Delete, true, ledger.Gone, false},
		"a second call of one update":         {time.Second, ledger.Changed, budget.Update, false, ledger.Changed, false},
		"an update after the first one":       {time.Second, ledger.Changed, budget.Update, true, ledger.Changed, true},
		"an update after a restart began":     {time.Second, ledger.Restarting, budget.Update, true, ledger.Changed, true},
		"a deletion of a pod that changed":    {time.Second, ledger.Gone, budget.Delete, true, ledger.Gone, true},
		"a deletion by Limpet":                {time.Second, ledger.Gone, budget.Limpet, true, ledger.Gone, false},
		"an update of an hour ago":            {time.Hour, ledger.Changed, budget.Update, true, ledger.Changed, false},
		"a late second update":                {9 * time.Second, ledger.Changed, budget.Update, true, ledger.Changed, false},
		"a late update of a pod that goes":    {9 * time.Second, ledger.Gone, budget.Update, true, ledger.Changed, false},
		"an update of a pod that goes anyway": {time.Second, ledger.Gone, budget.Update, true, ledger.Changed, false},
		"a new owner after an update":         {time.Second, ledger.Changed, budget.Leave, true, ledger.Gone, true},
		"a new owner of a pod that goes":      {time.Second, ledger.Gone, budget.Leave, true, ledger.Gone, false},
		"an update of one that leaves":        {time.Second, ledger.Leaving, budget.Update, false, ledger.Changed, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := evict(serving(0), entered(tc.ago, tc.use), most("1", pods(3)))
			in.Vector, in.Version, in.Budgets[0].Leaves = tc.vector, "7", tc.vector == budget.Leave
			if tc.changed {
				in.Version = "8"
			}
			d := budget.Plan(in)
			if d.Verdict != budget.Allowed || d.Reason != budget.ReasonTaken || d.Take != tc.take {
				t.Errorf("decision %+v, want a taken unit, take: %v", d, tc.take)
			}
			e := in.Entry()
			if !e.Since.Equal(now.Add(-tc.ago)) || !e.Expires.Equal(now.Add(ledger.Bound)) || e.Use != tc.want {
				t.Errorf("entry %+v, want its former Since, a new end and %s", e, tc.want)
			}
		})
	}
	t.Run("a request of another user", func(t *testing.T) {
		in := evict(serving(0), entered(time.Second, ledger.Gone), most("1", pods(3)))
		in.By = "carol"
		if d := budget.Plan(in); d.Verdict != budget.Allowed || !d.Take {
			t.Errorf("decision %+v, want that the entry is renewed", d)
		}
	})
	t.Run("a pod that does not serve", func(t *testing.T) { // the first request may give its entry back
		in := evict(unready(0), entered(time.Second, ledger.Gone), most("1", pods(3)))
		in.Vector, in.Version = budget.Delete, "7"
		if d := budget.Plan(in); d.Verdict != budget.Allowed || !d.Take {
			t.Errorf("decision %+v, want that the entry is renewed", d)
		}
	})
	t.Run("an expired entry", func(t *testing.T) {
		in := evict(serving(0), entered(ledger.Bound, ledger.Gone), most("0", pods(3)))
		if d := budget.Plan(in); d.Verdict != budget.Refused {
			t.Errorf("decision %+v, want a refusal", d)
		}
		if e := in.Entry(); !e.Since.Equal(now) {
			t.Errorf("entry since %v, want a new one", e.Since)
		}
	})
}

func TestPlanShieldsASuccessor(t *testing.T) {
	waiting := func(uid, by string, ago time.Duration) ledger.Book {
		b := book()
		b.Waiting = []ledger.Waiting{{UID: uid, Pod: "web-0", By: by, Since: now.Add(-time.Minute), Last: now.Add(-ago)}}
		return b
	}
	cases := map[string]struct {
		book   ledger.Book
		forUID string
		vector budget.Vector
		stale  bool
	}{
		"a repeated request for the predecessor":  {waiting("u-old", "bob", 5*time.Second), "", budget.Evict, true},
		"the last moment":                         {waiting("u-old", "bob", 30*time.Second), "", budget.Evict, true},
		"too long ago":                            {waiting("u-old", "bob", 31*time.Second), "", budget.Evict, false},
		"another user":                            {waiting("u-old", "alice", 5*time.Second), "", budget.Evict, false},
		"a repeated request for the same pod":     {waiting("u-0", "bob", 5*time.Second), "", budget.Evict, false},
		"a request that names the new pod":        {waiting("u-old", "bob", 5*time.Second), "u-0", budget.Evict, false},
		"a request that names the predecessor":    {book(), "u-old", budget.Evict, true},
		"a deletion, which no client repeats":     {waiting("u-old", "bob", 5*time.Second), "", budget.Delete, false},
		"a user whose name is longer than a book": {waiting("u-old", string(make([]byte, 500)), 5*time.Second), "", budget.Evict, false},
		"a request for the first time":            {book(), "", budget.Evict, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := evict(serving(0), tc.book, most("1", pods(3)))
			in.ForUID, in.Vector = tc.forUID, tc.vector
			d := budget.Plan(in)
			if got := d.Reason == budget.ReasonStale; got != tc.stale || got != (d.Verdict == budget.Refused) || d.Take && got {
				t.Errorf("decision %+v, want stale: %v", d, tc.stale)
			}
		})
	}
	t.Run("the next request is judged", func(t *testing.T) {
		in := evict(serving(0), waiting("u-old", "bob", 5*time.Second), most("1", pods(3)))
		in.Book.Waiting[0] = in.Waiting()
		if d := budget.Plan(in); d.Verdict != budget.Allowed {
			t.Errorf("decision %+v", d)
		}
	})
	t.Run("the name of the user is longer than the book keeps", func(t *testing.T) {
		in := evict(serving(0), book(), most("0", pods(3)))
		in.By = strings.Repeat("ü", ledger.MostText)
		asked, _ := ledger.Ask(in.Book, in.Waiting())
		in = evict(budget.Pod{UID: "u-new", Name: "web-0", Serving: true}, asked, most("1", pods(3)))
		in.By = strings.Repeat("ü", ledger.MostText)
		if d := budget.Plan(in); d.Reason != budget.ReasonStale {
			t.Errorf("decision %+v, want that the request is known again", d)
		}
	})
	t.Run("a native budget does not make the book forget", func(t *testing.T) {
		in := evict(serving(0), waiting("u-old", "bob", 5*time.Second), most("1", pods(3)))
		in.PDBs = []budget.PDB{{Name: "a"}}
		if d := budget.Plan(in); d.Reason != budget.ReasonStale {
			t.Errorf("decision %+v", d)
		}
	})
}

func TestPlanOfAFullBook(t *testing.T) {
	full := book()
	for i := range ledger.MostEntries {
		uid := fmt.Sprintf("o-%d", i)
		full.Entries[uid] = ledger.Entry{UID: uid, By: "bob", Since: now, Expires: now.Add(ledger.Bound)}
	}
	cases := map[string]struct {
		in   budget.Input
		want budget.Decision
	}{
		"a pod that needs a unit":   {evict(serving(0), full, most("1", pods(3))), budget.Decision{Verdict: budget.Refused, Reason: budget.ReasonFull}},
		"a pod that is not Ready":   {evict(unready(0), full, most("1", append(pods(3)[1:], unready(0)))), budget.Decision{Verdict: budget.Refused, Reason: budget.ReasonFull}},
		"a budget that is open":     {evict(serving(0), full, most("100%", pods(3))), budget.Decision{Verdict: budget.Allowed, Reason: budget.ReasonUnits}},
		"a pod that goes anyway":    {teardown(evict(serving(0), full, most("1", pods(3)))), budget.Decision{Verdict: budget.Accounted, Reason: budget.ReasonPolicy}},
		"a pod that is in the book": {evict(budget.Pod{UID: "o-7", Serving: true}, full, most("1", pods(3))), budget.Decision{Verdict: budget.Allowed, Reason: budget.ReasonTaken}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := budget.Plan(tc.in)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(budget.Decision{}, "Message", "Blocking")); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func teardown(in budget.Input) budget.Input {
	in.Vector = budget.Teardown
	return in
}

// BenchmarkPlan judges one pod of a budget with 2000 pods, of which a hundred are in use.
func BenchmarkPlan(b *testing.B) {
	all := pods(2000)
	for name, max := range map[string]string{"allowed": "10%", "refused": "100"} {
		b.Run(name, func(b *testing.B) {
			in := evict(all[0], book(all[1:101]...), most(max, all))
			for b.Loop() {
				budget.Plan(in)
			}
		})
	}
}
