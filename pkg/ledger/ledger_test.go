package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/ledger"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

// entry is an entry of a pod, decided some time after the start.
func entry(uid string, use ledger.Use, since time.Duration) ledger.Entry {
	return ledger.Entry{
		UID: uid, Pod: "pod-" + uid, Use: use, Vector: "evict", By: "drainer",
		Since: after(since), Expires: after(since + ledger.Bound), Version: "100", Generation: 1, ReadySince: after(-time.Hour),
	}
}

func take(t *testing.T, b ledger.Book, entries ...ledger.Entry) ledger.Book {
	t.Helper()
	for _, e := range entries {
		var ok bool
		if b, ok = ledger.Take(b, e); !ok {
			t.Fatalf("take %s: the book is full", e.UID)
		}
	}
	return b
}

// One deletion makes several calls, and any of them may be the one that is written.
func TestSecondCallForAPodTakesNoSecondUnit(t *testing.T) {
	b := take(t, ledger.Book{Name: "a"}, entry("1", ledger.Gone, 0), entry("1", ledger.Gone, 30*time.Second))
	want := entry("1", ledger.Gone, 0)
	want.Expires = after(70 * time.Second)
	if diff := cmp.Diff(map[string]ledger.Entry{"1": want}, b.Entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestUseOfAPodThatIsChangedAndDeleted(t *testing.T) {
	for _, first := range []ledger.Use{ledger.Changed, ledger.Gone} {
		for _, second := range []ledger.Use{ledger.Changed, ledger.Gone} {
			b := take(t, ledger.Book{Name: "a"}, entry("1", first, 0), entry("1", second, time.Second))
			want := ledger.Gone
			if first == ledger.Changed && second == ledger.Changed {
				want = ledger.Changed
			}
			if got := b.Entries["1"].Use; got != want {
				t.Errorf("%s and then %s: %s, want %s", first, second, got, want)
			}
		}
	}
}

// A second change in place is what the pod must recover from.
func TestSecondChangeOutlastsTheRecoveryFromTheFirst(t *testing.T) {
	second := entry("1", ledger.Changed, 10*time.Second)
	second.Version, second.Generation, second.ReadySince = "110", 2, after(5*time.Second)
	b := take(t, ledger.Book{Name: "a"}, entry("1", ledger.Changed, 0), second)
	recovered := ledger.PodSeen{Version: "109", Generation: 2, ReadySince: after(5 * time.Second)}
	if _, ended := ledger.Observe(b, ledger.Seen{Version: "109", Pods: map[string]ledger.PodSeen{"1": recovered}}, after(11*time.Second)); ended != nil {
		t.Errorf("ended %v, want the entry to wait for the second change", ended)
	}
}

func TestTakeChangesNothingThatItIsGiven(t *testing.T) {
	old := take(t, ledger.Book{Name: "a", Waiting: []ledger.Waiting{{Pod: "pod-2", By: "drainer"}}}, entry("1", ledger.Gone, 0))
	before := ledger.Copy(old)
	later := take(t, old, entry("2", ledger.Gone, 0))
	later, _ = ledger.Remove(later, entry("1", ledger.Gone, 0))
	later, _ = ledger.Observe(later, ledger.Seen{}, after(time.Hour))
	later, _ = ledger.Note(later, ledger.Decision{Pod: "x"})
	later, _ = ledger.Ask(later, ledger.Waiting{Pod: "x"})
	later, _ = ledger.Freeze(later, "0")
	if _, ok := ledger.Absorb(ledger.Book{Name: "0", Entries: before.Entries}, later, start); !ok {
		t.Error("not absorbed")
	}
	if diff := cmp.Diff(before, old); diff != "" {
		t.Errorf("book changed (-before +after):\n%s", diff)
	}
}

func TestTakeEndsTheWaitingOfTheRequestAlone(t *testing.T) {
	var b ledger.Book
	for _, by := range []string{"drainer", "other"} {
		b, _ = ledger.Ask(b, ledger.Waiting{UID: "1", Pod: "pod-1", By: by, Since: start, Last: start})
	}
	b = take(t, b, entry("1", ledger.Gone, 0))
	if len(b.Waiting) != 1 || b.Waiting[0].By != "other" {
		t.Errorf("waiting %v, want the other user's request", b.Waiting)
	}
}

func TestFullBookTakesNoFurtherPod(t *testing.T) {
	b := ledger.Book{Name: "a", Entries: map[string]ledger.Entry{}}
	for i := range ledger.MostEntries {
		uid := fmt.Sprint(i)
		b.Entries[uid] = entry(uid, ledger.Gone, 0)
	}
	if got, ok := ledger.Take(b, entry("new", ledger.Gone, 0)); ok || len(got.Entries) != ledger.MostEntries {
		t.Errorf("taken %v with %d entries, want a full book", ok, len(got.Entries))
	}
	if _, ok := ledger.Take(b, entry("7", ledger.Gone, time.Second)); !ok {
		t.Error("a pod that has its entry is refused by a full book")
	}
}

// A pod that becomes Ready between the decision and its change is not Ready again by that.
func TestAPodThatBecameReadyBeforeItsChangeIsNotReadyAgain(t *testing.T) {
	seen := func(generation int64, ready time.Time) ledger.Seen {
		pod := ledger.PodSeen{Version: "110", Generation: generation, ReadySince: ready}
		return ledger.Seen{Version: "110", Pods: map[string]ledger.PodSeen{"1": pod}}
	}
	ready, restarted := after(5*time.Second), after(9*time.Second)
	for what, atDecision := range map[string]time.Time{"not Ready at the decision": {}, "Ready, and Ready again": after(-time.Hour)} {
		t.Run(what, func(t *testing.T) {
			e := entry("1", ledger.Changed, 0)
			e.ReadySince, e.Generation = atDecision, 1
			b, fresh := ledger.Refresh(take(t, ledger.Book{Name: "a"}, e), seen(1, ready))
			if !fresh || !b.Entries["1"].ReadySince.Equal(ready) {
				t.Fatalf("refreshed %t: %+v", fresh, b.Entries["1"])
			}
			if _, fresh := ledger.Refresh(b, seen(1, ready)); fresh {
				t.Error("refreshed twice")
			}
			if _, ended := ledger.Observe(b, seen(2, ready), after(6*time.Second)); ended != nil {
				t.Errorf("ended %v before the restart", ended)
			}
			if b, fresh := ledger.Refresh(b, seen(2, restarted)); fresh {
				t.Errorf("refreshed by a change that is seen: %+v", b.Entries["1"])
			}
			if _, ended := ledger.Observe(b, seen(2, restarted), after(10*time.Second)); len(ended) != 1 {
				t.Error("not ended after the restart")
			}
		})
	}
	t.Run("not seen before its change", func(t *testing.T) {
		e := entry("1", ledger.Changed, 0)
		e.ReadySince, e.Generation = time.Time{}, 1
		if _, ended := ledger.Observe(take(t, ledger.Book{Name: "a"}, e), seen(2, ready), after(6*time.Second)); ended != nil {
			t.Errorf("ended %v, which nothing tells", ended)
		}
	})
}

// A tenant chooses the names of its pods, and how its users are called may be free, too.
func TestLongNamesFillABookInTime(t *testing.T) {
	b, taken := ledger.Book{Name: "a"}, 0
	for i := range ledger.MostEntries {
		e := entry(fmt.Sprint(i), ledger.Gone, 0)
		e.Pod, e.By, e.Vector = strings.Repeat("p", 253), strings.Repeat("ü", 100_000), strings.Repeat("v", 100_000)
		var ok bool
		if b, ok = ledger.Take(b, e); !ok {
			break
		}
		taken++
	}
	if taken < 400 || taken == ledger.MostEntries || !ledger.Fits(b) {
		t.Errorf("%d entries of the greatest size, fits %v", taken, ledger.Fits(b))
	}
}

func TestOnlyTheFailedRequestGivesItsUnitBack(t *testing.T) {
	first, second := entry("1", ledger.Gone, 0), entry("1", ledger.Gone, time.Second)
	alone, both := take(t, ledger.Book{}, first), take(t, ledger.Book{}, first, second)
	if b, ok := ledger.Remove(alone, first); !ok || len(b.Entries) != 0 {
		t.Errorf("removed %v, entries %v, want none", ok, b.Entries)
	}
	for _, failed := range []ledger.Entry{first, second} {
		if b, ok := ledger.Remove(both, failed); ok || len(b.Entries) != 1 {
			t.Errorf("removed %v although another request relies on the entry", ok)
		}
	}
	if _, ok := ledger.Remove(ledger.Book{}, first); ok {
		t.Error("removed what is not there")
	}
}

func TestWhenAnEntryEnds(t *testing.T) {
	at := func(version string, pod *ledger.PodSeen) ledger.Seen {
		seen := ledger.Seen{Version: version, Pods: map[string]ledger.PodSeen{}}
		if pod != nil {
			seen.Pods["1"] = *pod
		}
		return seen
	}
	gone := &ledger.PodSeen{Gone: true}
	readyAgain := &ledger.PodSeen{Version: "103", Generation: 2, ReadySince: after(5 * time.Second)}
	for name, c := range map[string]struct {
		use  ledger.Use
		seen ledger.Seen
		at   time.Duration
		want string // the version that is noted; "" for an entry that stays
	}{
		"pod as before":                     {ledger.Gone, at("105", &ledger.PodSeen{Version: "100"}), time.Second, ""},
		"pod terminates":                    {ledger.Gone, at("105", &ledger.PodSeen{Version: "103", Going: true}), time.Second, "103"},
		"pod not looked at":                 {ledger.Gone, at("105", nil), time.Second, ""},
		"pod gone":                          {ledger.Gone, at("105", gone), time.Second, "105"},
		"pod gone, or not known yet":        {ledger.Gone, at("99", gone), time.Second, ""},
		"the versions have more digits":     {ledger.Gone, at("1000", gone), time.Second, "1000"},
		"no version known":                  {ledger.Gone, at("", gone), time.Second, ""},
		"deleted pod that is ready again":   {ledger.Gone, at("105", readyAgain), time.Second, ""},
		"changed pod terminates":            {ledger.Changed, at("105", &ledger.PodSeen{Version: "103", Going: true}), time.Second, "103"},
		"changed pod that is ready again":   {ledger.Changed, at("105", readyAgain), time.Second, "103"},
		"changed pod, not ready":            {ledger.Changed, at("105", &ledger.PodSeen{Version: "103", Generation: 2}), time.Second, ""},
		"changed pod, ready as before":      {ledger.Changed, at("105", &ledger.PodSeen{Version: "103", Generation: 2, ReadySince: after(-time.Hour)}), time.Second, ""},
		"ready again, but not yet changed":  {ledger.Changed, at("105", &ledger.PodSeen{Version: "103", Generation: 1, ReadySince: after(5 * time.Second)}), time.Second, ""},
		"ready again, generations unknown":  {ledger.Changed, at("105", &ledger.PodSeen{Version: "103", ReadySince: after(5 * time.Second)}), time.Second, "103"},
		"the last moment":                   {ledger.Gone, at("105", &ledger.PodSeen{Version: "100"}), ledger.Bound - 1, ""},
		"expired":                           {ledger.Gone, at("105", &ledger.PodSeen{Version: "100"}), ledger.Bound, "105"},
		"expired, and no version is known":  {ledger.Changed, at("", nil), ledger.Bound, "90"},
		"an old cache shows it terminating": {ledger.Gone, at("80", &ledger.PodSeen{Version: "80", Going: true}), time.Second, "90"},
	} {
		t.Run(name, func(t *testing.T) {
			b := take(t, ledger.Book{Name: "a", Seen: "90"}, entry("1", c.use, 0))
			got, ended := ledger.Observe(b, c.seen, after(c.at))
			if (len(ended) == 1) != (c.want != "") || len(got.Entries)+len(ended) != 1 {
				t.Errorf("ended %v, left %v", ended, got.Entries)
			}
			if c.want != "" && got.Seen != c.want {
				t.Errorf("seen %s, want %s", got.Seen, c.want)
			}
		})
	}
}

func TestReplicaWithAnOldCacheMustNotDecide(t *testing.T) {
	b := ledger.Book{Seen: "100"}
	for version, want := range map[string]bool{"": false, "99": false, "100": true, "101": true, "1000": true, "x": false, "0": false} {
		if got := b.Knows(version); got != want {
			t.Errorf("pods up to %q: %v, want %v", version, got, want)
		}
	}
	if !(ledger.Book{}).Knows("") {
		t.Error("a book without history needs no cache")
	}
}

func TestRepeatedRefusalIsOneDecision(t *testing.T) {
	var b ledger.Book
	b, _ = ledger.Note(b, ledger.Decision{Time: start, Pod: "a", By: "u", Verdict: "Allowed"})
	for i := range 200 {
		b, _ = ledger.Note(b, ledger.Decision{Time: after(time.Duration(i) * 5 * time.Second), Pod: "b", By: "u", Verdict: "Refused"})
		b, _ = ledger.Note(b, ledger.Decision{Time: after(time.Duration(i) * 5 * time.Second), Pod: "c", By: "u", Verdict: "Refused"})
	}
	var got []string
	for _, d := range b.Decisions {
		got = append(got, fmt.Sprint(d.Pod, d.Time.Sub(start)))
	}
	if diff := cmp.Diff([]string{"c16m35s", "b16m35s", "a0s"}, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if _, changed := ledger.Note(b, ledger.Decision{Time: after(997 * time.Second), Pod: "b", By: "u", Verdict: "Refused"}); changed {
		t.Error("a request that is repeated at once is written")
	}
	if b, _ = ledger.Note(b, ledger.Decision{Time: after(997 * time.Second), Pod: "b", By: "u", Verdict: "Allowed"}); len(b.Decisions) != 4 {
		t.Error("an allowed request is not in the history")
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var b ledger.Book
	for i := range 100 {
		b, _ = ledger.Note(b, ledger.Decision{Time: after(time.Duration(i)), Pod: fmt.Sprint(i)})
	}
	if len(b.Decisions) != ledger.MostDecisions || b.Decisions[0].Pod != "99" {
		t.Errorf("%d decisions from %s on", len(b.Decisions), b.Decisions[0].Pod)
	}
	names := make([]string, 32)
	for i := range names {
		names[i] = strings.Repeat("b", 253)
	}
	for i := range 100 {
		b, _ = ledger.Note(b, ledger.Decision{Time: after(time.Duration(i) * time.Hour), Pod: fmt.Sprint(i), Budgets: names})
	}
	if len(b.Decisions) > 10 || b.Decisions[0].Pod != "99" {
		t.Errorf("%d decisions with 32 long names from %s on, want few", len(b.Decisions), b.Decisions[0].Pod)
	}
}

func TestRepeatedRequestKeepsItsFirstTime(t *testing.T) {
	ask := func(b ledger.Book, uid string, at time.Duration) (ledger.Book, bool) {
		return ledger.Ask(b, ledger.Waiting{UID: uid, Pod: "web-0", By: "u", Since: after(at), Last: after(at)})
	}
	b, _ := ask(ledger.Book{}, "first", 0)
	b, _ = ask(b, "first", 5*time.Second)
	want := []ledger.Waiting{{UID: "first", Pod: "web-0", By: "u", Since: start, Last: after(5 * time.Second)}}
	if diff := cmp.Diff(want, b.Waiting); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if _, changed := ask(b, "first", 7*time.Second); changed {
		t.Error("a request that is repeated at once is written")
	}
	want = []ledger.Waiting{{UID: "successor", Pod: "web-0", By: "u", Since: after(7 * time.Second), Last: after(7 * time.Second)}}
	successor, changed := ask(b, "successor", 7*time.Second)
	if diff := cmp.Diff(want, successor.Waiting); diff != "" || !changed {
		t.Errorf("waiting for another pod of the name (-want +got):\n%s", diff)
	}
	late, _ := ask(b, "first", 5*time.Second+ledger.Lapse)
	if len(late.Waiting) != 1 || !late.Waiting[0].Since.Equal(after(5*time.Second+ledger.Lapse)) {
		t.Errorf("waiting %v, want a new request", late.Waiting)
	}
}

// The requests that came least recently are dropped, and the longest waiting is the first, in
// whatever order requests come.
func TestTheMostRecentRequestsWait(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b ledger.Book
	var want []ledger.Waiting
	for i := range 4 * ledger.MostWaiting {
		at := after(time.Duration(random.IntN(ledger.MostWaiting)) * time.Millisecond)
		w := ledger.Waiting{UID: "u", Pod: fmt.Sprint(i), By: "b", Since: at, Last: after(time.Duration(random.IntN(50)) * time.Second)}
		b, _ = ledger.Ask(b, w)
		want = slices.DeleteFunc(want, func(known ledger.Waiting) bool { return w.Last.Sub(known.Last) >= ledger.Lapse })
		want = append(want, w)
		slices.SortStableFunc(want, func(a, b ledger.Waiting) int { return b.Last.Compare(a.Last) })
		want = want[:min(len(want), ledger.MostWaiting)]
		slices.SortStableFunc(want, func(a, b ledger.Waiting) int {
			if a.Since.Equal(b.Since) {
				return strings.Compare(a.Pod, b.Pod)
			}
			return a.Since.Compare(b.Since)
		})
		if !slices.Equal(b.Waiting, want) {
			t.Fatalf("after %d requests (-want +got):\n%s", i+1, cmp.Diff(want, b.Waiting))
		}
	}
}

func TestWaitingRequestsAreBounded(t *testing.T) {
	var b ledger.Book
	for i := range ledger.MostWaiting + 10 {
		at := after(time.Duration(i) * time.Millisecond)
		b, _ = ledger.Ask(b, ledger.Waiting{Pod: fmt.Sprint(i), Since: at, Last: at})
	}
	if len(b.Waiting) != ledger.MostWaiting || b.Waiting[0].Pod != "10" {
		t.Errorf("%d requests from %s on", len(b.Waiting), b.Waiting[0].Pod)
	}
	if b, _ = ledger.Observe(b, ledger.Seen{}, after(time.Hour)); len(b.Waiting) != 0 {
		t.Errorf("%d requests wait after an hour", len(b.Waiting))
	}
}
