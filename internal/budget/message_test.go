package budget_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

func TestMessage(t *testing.T) {
	waiting := func(in *budget.Input) {
		in.Book.Waiting = []ledger.Waiting{
			{UID: "u-2", Pod: "web-2", By: "carol", Since: now.Add(-40 * time.Second), Last: now.Add(-time.Second)},
			{UID: "u-1", Pod: "web-1", By: "dave", Since: now.Add(-9 * time.Minute), Last: now.Add(-8 * time.Minute)}, // gave up
			{UID: "u-9", Pod: "db-0", By: "erin", Since: now.Add(-time.Hour), Last: now},                              // of another budget
		}
	}
	marked := unready(3)
	marked.Ready = true
	ending := serving(3)
	ending.Finished = true
	displaced := serving(3)
	displaced.Displaced = true
	cases := map[string]struct {
		in     budget.Input
		change func(*budget.Input)
		want   string
	}{
		"a unit is in use": {
			evict(serving(0), book(serving(1)), most("1", pods(3))), nil,
			"PodUnavailableBudget web needs 2 of 3 pods available (maxUnavailable 1) and has 2. Not available: web-1 (evict by bob, 1 s ago). " +
				"Pod web-0 may go when one more pod is available.",
		},
		"pods are not Ready or not there": {
			evict(serving(0), book(), with(least("50%", append(pods(2), unready(2), marked)), func(b *budget.Budget) { b.Expected = 5 })), nil,
			"PodUnavailableBudget web needs 3 of 5 pods available (minAvailable 50%) and has 2. " +
				"Not available: web-2 (not Ready), web-3 (labelled unavailable), 1 not created. Pod web-0 may go when one more pod is available.",
		},
		"a young pod, one that ends, and one at another address": {
			evict(serving(0), book(), with(most("1", []budget.Pod{serving(0), young(1), ending, displaced}), func(b *budget.Budget) {
				b.Rules.Stable, b.Rules.KeepPlace = 3*time.Minute, true
			})), nil,
			"PodUnavailableBudget web needs 3 of 4 pods available (maxUnavailable 1) and has 1. Not available: web-1 (Ready for less than 3 min), " +
				"web-3 (ends), web-3 (has another address than the one that was kept). Pod web-0 may go when one more pod is available.",
		},
		"no pod may go at all": {
			evict(serving(0), book(), least("100%", pods(2))), nil,
			"PodUnavailableBudget web needs 2 of 2 pods available (minAvailable 100%) and has 2. " +
				"The budget lets no pod go at this size: pod web-0 may go with more replicas or a lower budget.",
		},
		"another request waits longer": {
			evict(serving(0), book(serving(1)), most("1", pods(3))), waiting,
			"PodUnavailableBudget web needs 2 of 3 pods available (maxUnavailable 1) and has 2. Not available: web-1 (evict by bob, 1 s ago). " +
				"Pod web-0 may go when one more pod is available. carol asked first, for web-2, 40 s ago.",
		},
		"this request waits longest": {
			evict(serving(0), book(serving(1)), most("1", pods(3))), func(in *budget.Input) {
				waiting(in)
				in.Book.Waiting = append(in.Book.Waiting, ledger.Waiting{UID: "u-0", Pod: "web-0", By: "bob", Since: now.Add(-time.Minute), Last: now})
			},
			"PodUnavailableBudget web needs 2 of 3 pods available (maxUnavailable 1) and has 2. Not available: web-1 (evict by bob, 1 s ago). " +
				"Pod web-0 may go when one more pod is available.",
		},
		"two budgets": {
			evict(serving(0), book(), named("b", most("0", pods(2))), named("a", with(most("1", pods(3)), func(b *budget.Budget) { b.Unknown = "no scale" }))), nil,
			"PodUnavailableBudget a cannot read the size of the workload: no scale. " +
				"PodUnavailableBudget b needs 2 of 2 pods available (maxUnavailable 0) and has 2. " +
				"Pod web-0 may go when the size can be read, or with protectTotalReplicas.",
		},
		"an address": {
			evict(serving(0), book(), with(most("1", pods(3)), func(b *budget.Budget) { b.Rules.KeepPlace = true })),
			func(in *budget.Input) { in.Place = budget.Place{Asked: true, Address: "its time is over"} },
			"PodUnavailableBudget web keeps places, and the address would not be kept: its time is over. " +
				"Pod web-0 may go when its place is kept, or without the annotation limpet.dev/keep-place.",
		},
		"a node": {
			evict(serving(0), book(), with(most("1", pods(3)), func(b *budget.Budget) { b.Rules.KeepPlace = true })),
			func(in *budget.Input) { in.Place = budget.Place{Asked: true, Node: "n1 is full"} },
			"PodUnavailableBudget web keeps places, and no node would take the rebuilt pod: n1 is full. " +
				"Pod web-0 may go when its place is kept, or without the annotation limpet.dev/keep-place.",
		},
		"a native budget": {
			evict(serving(0), book()), func(in *budget.Input) { in.PDBs = []budget.PDB{{Name: "app", DesiredHealthy: 3, CurrentHealthy: 3}} },
			"PodDisruptionBudget app needs 3 healthy pods and has 3: pod web-0 must stay.",
		},
		"a predecessor": {
			evict(serving(0), book()), func(in *budget.Input) { in.ForUID = "u-old" },
			"The pod web-0 that was to be evicted is gone. The pod that has its name now was created later.",
		},
		"the oldest entries first, then names": {
			evict(serving(0), book(serving(1), serving(2)), most("1", []budget.Pod{
				serving(0), serving(1), serving(2), {UID: "a", Name: "web-9"}, {UID: "b", Name: "web-8"}, {UID: "c", Name: "web-7"},
			})),
			func(in *budget.Input) {
				e := in.Book.Entries["u-2"]
				e.Since = now.Add(-3 * time.Minute)
				in.Book.Entries["u-2"] = e
			},
			"PodUnavailableBudget web needs 5 of 6 pods available (maxUnavailable 1) and has 1. Not available: web-2 (evict by bob, 3 min ago), " +
				"web-1 (evict by bob, 1 s ago), web-7 (not Ready), web-8 (not Ready), 1 more. Pod web-0 may go when one more pod is available.",
		},
		"two others wait": {
			evict(serving(0), book(serving(1)), most("1", pods(4))), func(in *budget.Input) {
				in.Book.Waiting = []ledger.Waiting{
					{UID: "u-2", Pod: "web-2", By: "carol", Since: now.Add(-10 * time.Second), Last: now},
					{UID: "u-3", Pod: "web-3", By: "dave", Since: now.Add(-40 * time.Second), Last: now},
				}
			},
			"PodUnavailableBudget web needs 3 of 4 pods available (maxUnavailable 1) and has 3. Not available: web-1 (evict by bob, 1 s ago). " +
				"Pod web-0 may go when one more pod is available. dave asked first, for web-3, 40 s ago.",
		},
		"a number, and a size that is not read": {
			evict(serving(0), book(), with(least("3", pods(3)), func(b *budget.Budget) { b.Expected, b.Unknown = 0, "no scale" })), nil,
			"PodUnavailableBudget web needs 3 of 3 pods available (minAvailable 3) and has 3. Pod web-0 may go when one more pod is available.",
		},
		"more holders than fit": {
			evict(serving(0), book(pods(9)[1:]...), most("1", pods(9))), nil,
			"PodUnavailableBudget web needs 8 of 9 pods available (maxUnavailable 1) and has 1. Not available: " +
				"web-1 (evict by bob, 1 s ago), web-2 (evict by bob, 1 s ago), web-3 (evict by bob, 1 s ago), web-4 (evict by bob, 1 s ago), 4 more. " +
				"Pod web-0 may go when one more pod is available.",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.change != nil {
				tc.change(&tc.in)
			}
			if got := budget.Plan(tc.in).Message; got != tc.want {
				t.Errorf("message\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// TestAPodOutOfServiceIsNamedSo takes a pod out of service, which its kubelet sees later.
func TestAPodOutOfServiceIsNamedSo(t *testing.T) {
	for name, seen := range map[string]func(*corev1.Pod){"Ready": func(*corev1.Pod) {}, "not Ready": func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }} {
		pod := served(out(time.Second, budget.ReasonRepeat), seen)
		b := most("1", []budget.Pod{budget.PodOf(pod, 0, now), serving(1), serving(2)})
		want := "needs 2 of 3 pods available (maxUnavailable 1) and has 2. Not available: web-0 (out of service)."
		if got := budget.Explain(b, book(), now); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	want := "needs 2 of 3 pods available (maxUnavailable 1) and has 2. Not available: web-1 (evict by bob, 1 s ago)."
	if got := budget.Explain(most("1", pods(3)), book(serving(1)), now); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	want = "needs 2 of 3 pods available (maxUnavailable 1) and has 3."
	if got := budget.Explain(most("1", pods(3)), book(), now); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// hostile is a request in which each text is the user's.
func hostile(text string, budgets int) budget.Input {
	pod := budget.Pod{UID: "u-0", Name: text, Ready: true, Serving: true, Available: true}
	in := evict(pod, ledger.Book{Entries: map[string]ledger.Entry{}})
	in.By = text
	in.Place = budget.Place{Asked: true, Address: text, Node: text}
	for i := range budgets {
		b := named(fmt.Sprintf("%d%s", i, text), most("0", []budget.Pod{pod, {UID: "u-1", Name: text}, {UID: "u-2", Name: text}}))
		b.Unknown = []string{"", text}[i%2]
		b.Rules.KeepPlace = i%3 == 0
		in.Budgets = append(in.Budgets, b)
	}
	in.Book.Entries["u-1"] = ledger.Entry{UID: "u-1", Pod: text, By: text, Vector: text, Since: now.Add(-time.Hour), Expires: now.Add(time.Hour)}
	in.Book.Waiting = []ledger.Waiting{{UID: "u-2", Pod: text + "x", By: text, Since: now.Add(-time.Hour), Last: now}}
	return in
}

// A message is bounded, and no control character of a user reaches another user's terminal.
func FuzzMessage(f *testing.F) {
	f.Add("web-0", 1)
	f.Add("\x1b[2Jweb\n\r\u202e", 9)
	f.Add(strings.Repeat("ä", 700), 4)
	f.Add("\xff\xfe", 2)
	f.Fuzz(func(t *testing.T, text string, budgets int) {
		in := hostile(text, 1+abs(budgets)%20)
		in2 := in
		in2.PDBs = []budget.PDB{{Name: text}, {Name: text}, {Name: text}, {Name: text}, {Name: text}, {Name: text}}
		in3 := in
		in3.PDBs = in2.PDBs[:1]
		in4 := in
		in4.ForUID = "u-old"
		for _, in := range []budget.Input{in, in2, in3, in4} {
			d := budget.Plan(in)
			checkText(t, d.Message)
			if d.Verdict != budget.Refused || d.Message == "" {
				t.Errorf("decision %+v", d)
			}
		}
		checkText(t, in.Entry().By+in.Waiting().By)
	})
}

func checkText(t *testing.T, text string) {
	t.Helper()
	if len(text) > budget.MostMessage || !utf8.ValidString(text) {
		t.Errorf("message of %d bytes: %q", len(text), text)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("message with a control character: %q", text)
	}
}

func abs(n int) int { return max(n, -n, 0) }
