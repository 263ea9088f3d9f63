package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

func TestJoin(t *testing.T) {
	a := take(t, ledger.Book{Name: "a", Seen: "9"}, entry("1", ledger.Gone, 0))
	b := take(t, ledger.Book{Name: "b", Seen: "10", Absorbed: []string{"x"}}, entry("2", ledger.Gone, 0))
	if _, ok := ledger.Freeze(a, "b"); ok {
		t.Error("a pointer leads to a greater name")
	}
	if _, ok := ledger.Absorb(a, b, start); ok {
		t.Error("a book that is not frozen was absorbed")
	}
	if _, ok := ledger.Close(b); ok {
		t.Error("a book that is not frozen was closed")
	}
	frozen, _ := ledger.Freeze(b, "a")
	if _, ok := ledger.Freeze(frozen, "0"); ok || frozen.IsRoot() {
		t.Error("a frozen book changed")
	}
	joined, ok := ledger.Absorb(a, frozen, start)
	if !ok || len(joined.Entries) != 2 || joined.Seen != "10" {
		t.Errorf("joined %v: %+v", ok, joined)
	}
	if diff := cmp.Diff([]string{"x", "b"}, joined.Absorbed); diff != "" {
		t.Errorf("absorbed (-want +got):\n%s", diff)
	}
	without, _ := ledger.Remove(joined, entry("2", ledger.Gone, 0))
	if again, ok := ledger.Absorb(without, frozen, start); ok || len(again.Entries) != 1 {
		t.Error("a book was absorbed twice")
	}
	closed, _ := ledger.Close(frozen)
	if diff := cmp.Diff(ledger.Book{Name: "b", Joined: "a", Moved: true}, closed); diff != "" {
		t.Errorf("closed (-want +got):\n%s", diff)
	}
	if got, ok := ledger.Absorb(ledger.Book{Name: "0"}, closed, start); ok || len(got.Absorbed) != 0 {
		t.Error("a closed book was absorbed")
	}
	if late, _ := ledger.Absorb(a, frozen, after(ledger.Bound)); len(late.Entries) != 0 {
		t.Errorf("expired entries were taken over: %v", late.Entries)
	}
}

// The two books may hold different news of the same pods and requests.
func TestJoinOfBooksThatKnowTheSamePod(t *testing.T) {
	ask := func(b ledger.Book, uid string, since, last time.Duration) ledger.Book {
		b, _ = ledger.Ask(b, ledger.Waiting{UID: uid, Pod: "web-0", By: "u", Since: after(since), Last: after(last)})
		b, _ = ledger.Note(b, ledger.Decision{Time: after(last), Pod: uid})
		return b
	}
	askOther := func(b ledger.Book, since, last time.Duration) ledger.Book {
		b, _ = ledger.Ask(b, ledger.Waiting{UID: "other", Pod: "web-1", By: "u", Since: after(since), Last: after(last)})
		return b
	}
	a := ask(take(t, ledger.Book{Name: "a"}, entry("1", ledger.Changed, 5*time.Second)), "successor", 3*time.Second, 9*time.Second)
	b := ask(take(t, ledger.Book{Name: "b"}, entry("1", ledger.Gone, 2*time.Second)), "first", 1*time.Second, 7*time.Second)
	a, b = askOther(a, 4*time.Second, 6*time.Second), askOther(b, 3*time.Second, 8*time.Second)
	want := entry("1", ledger.Gone, 2*time.Second)
	want.Expires = after(5*time.Second + ledger.Bound)
	for _, got := range []ledger.Book{ledger.Merge(a, b), ledger.Merge(b, a)} {
		if diff := cmp.Diff(map[string]ledger.Entry{"1": want}, got.Entries); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		waiting := []ledger.Waiting{
			{UID: "other", Pod: "web-1", By: "u", Since: after(3 * time.Second), Last: after(8 * time.Second)},
			{UID: "successor", Pod: "web-0", By: "u", Since: after(3 * time.Second), Last: after(9 * time.Second)},
		}
		slices.SortFunc(got.Waiting, func(a, b ledger.Waiting) int { return strings.Compare(a.UID, b.UID) })
		if diff := cmp.Diff(waiting, got.Waiting); diff != "" {
			t.Errorf("waiting (-want +got):\n%s", diff)
		}
		if got.Decisions[0].Pod != "successor" || got.Decisions[1].Pod != "first" {
			t.Errorf("decisions %v, want the newest first", got.Decisions)
		}
	}
}

func TestAbsorbedNamesAreBounded(t *testing.T) {
	root := ledger.Book{Name: "a"}
	for i := range ledger.MostAbsorbed + 10 {
		root, _ = ledger.Absorb(root, ledger.Book{Name: fmt.Sprint("b", i), Joined: "a"}, start)
	}
	if len(root.Absorbed) != ledger.MostAbsorbed || root.Absorbed[0] != "b10" {
		t.Errorf("%d names from %s on", len(root.Absorbed), root.Absorbed[0])
	}
}

// follow does steps until the end, or up to a number.
func follow(t *testing.T, known ledger.Books, names []string, most int) (steps []ledger.Step) {
	t.Helper()
	for range most {
		step := ledger.Next(known, names)
		steps = append(steps, step)
		switch step.Do {
		case ledger.Done:
			return steps
		case ledger.DoRead:
			known[step.Name] = nil
		case ledger.DoMake:
			known[step.Name] = new(step.New(ledger.Book{}, start))
		default:
			var other ledger.Book
			if step.Do == ledger.DoAbsorb {
				other = *known[step.Other]
			}
			next, ok := step.Apply(*known[step.Name], other, start)
			if !ok {
				t.Fatalf("step %v changes nothing", step)
			}
			known[step.Name] = &next
		}
	}
	t.Fatalf("no end after %d steps: %v", most, steps)
	return nil
}

func TestSteps(t *testing.T) {
	root := func(name string) *ledger.Book { return &ledger.Book{Name: name} }
	frozen := func(name, to string) *ledger.Book { return &ledger.Book{Name: name, Joined: to} }
	closed := func(name, to string) *ledger.Book { return &ledger.Book{Name: name, Joined: to, Moved: true} }
	known := func(books ...*ledger.Book) ledger.Books {
		all := ledger.Books{"a": nil, "b": nil, "c": nil, "d": nil}
		for _, b := range books {
			all[b.Name] = b
		}
		return all
	}
	for name, c := range map[string]struct {
		known ledger.Books
		names string
		want  string
	}{
		"one book":                                  {known(root("b")), "b", "[{Done b }]"},
		"a book that is not known":                  {ledger.Books{}, "b", "[{Read b } {Make b } {Done b }]"},
		"new books point at once":                   {known(), "cab", "[{Make a } {Make b a} {Make c a} {Done a }]"},
		"a new book with a smaller name":            {known(root("b")), "ab", "[{Make a } {Freeze b a} {Absorb a b} {Close b } {Done a }]"},
		"two books":                                 {known(root("a"), root("b")), "ab", "[{Freeze b a} {Absorb a b} {Close b } {Done a }]"},
		"a join that was left after Freeze":         {known(root("a"), frozen("b", "a")), "b", "[{Absorb a b} {Close b } {Done a }]"},
		"a join that was left after Absorb":         {known(&ledger.Book{Name: "a", Absorbed: []string{"b"}}, frozen("b", "a")), "b", "[{Close b } {Done a }]"},
		"a chain":                                   {known(root("a"), closed("b", "a"), closed("c", "b")), "c", "[{Point c a} {Done a }]"},
		"a chain of joins that were left":           {known(root("a"), frozen("b", "a"), frozen("c", "b")), "c", "[{Absorb a b} {Close b } {Absorb a c} {Close c } {Point c a} {Done a }]"},
		"a book on the way was deleted":             {known(closed("c", "b")), "c", "[{Make b } {Done b }]"},
		"a book that was to absorb was deleted":     {known(frozen("c", "b")), "c", "[{Make b } {Absorb b c} {Close c } {Done b }]"},
		"a cycle":                                   {known(closed("a", "b"), closed("b", "a")), "ab", "[{Done a }]"},
		"a book that points to itself":              {known(frozen("a", "a")), "a", "[{Done a }]"},
		"three books, two of which were joined":     {known(root("a"), root("b"), closed("c", "b")), "ac", "[{Freeze b a} {Absorb a b} {Close b } {Point c a} {Done a }]"},
		"a name twice":                              {known(), "aa", "[{Make a } {Done a }]"},
		"a pointer to a greater name is no pointer": {known(closed("a", "d"), root("b")), "ab", "[{Freeze b a} {Absorb a b} {Close b } {Done a }]"},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, n := range c.names {
				names = append(names, string(n))
			}
			if got := fmt.Sprint(follow(t, c.known, names, 20)); got != c.want {
				t.Errorf("steps\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// A budget that is made while pods go must count them, and must not be decided about with an old cache.
func TestNewBookHasTheEntriesOfAllOthers(t *testing.T) {
	expired := entry("3", ledger.Gone, -time.Hour)
	others := take(t, ledger.Book{Name: "x", Seen: "17"}, entry("1", ledger.Gone, 0), entry("2", ledger.Gone, 0), expired)
	others, _ = ledger.Ask(others, ledger.Waiting{Pod: "p"})
	want := ledger.Book{Name: "b", Joined: "a", Seen: "17", Entries: map[string]ledger.Entry{"1": entry("1", ledger.Gone, 0), "2": entry("2", ledger.Gone, 0)}}
	if diff := cmp.Diff(want, ledger.Step{Do: ledger.DoMake, Name: "b", Other: "a"}.New(others, start), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("book that is to be joined (-want +got):\n%s", diff)
	}
	want.Joined = ""
	if diff := cmp.Diff(want, ledger.Step{Do: ledger.DoMake, Name: "b"}.New(others, start), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("book of its own (-want +got):\n%s", diff)
	}
	if !(ledger.Step{Do: ledger.DoMake, Name: "b", Other: "a"}).New(ledger.Book{}, start).Moved {
		t.Error("a book without entries is joined in more than one step")
	}
}

// Any order of names and of books that exist leads to one book within four steps for each name.
func TestJoinOfManyBooksEnds(t *testing.T) {
	const many = 32
	for _, existing := range []int{0, 1, many / 2, many} {
		known, names := ledger.Books{}, []string(nil)
		for i := range many {
			name := fmt.Sprintf("%02d", i*7%many)
			names = append(names, name)
			if i < existing {
				known[name] = new(take(t, ledger.Book{Name: name}, entry(name, ledger.Gone, 0)))
			}
		}
		steps := follow(t, known, names, 5*many)
		if last := steps[len(steps)-1]; last.Name != "00" || len(known["00"].Entries) != existing {
			t.Errorf("%d existing books: the last step is %v, with %d entries", existing, last, len(known["00"].Entries))
		}
		slices.Reverse(names)
		if again := follow(t, known, names, 1); again[0].Do != ledger.Done {
			t.Errorf("a second join has the step %v", again[0])
		}
	}
}
