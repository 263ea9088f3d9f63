package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

// entry is an entry of a pod, decided some time after the start.
func entry(uid string, use ledger.Use, since time.Duration) ledger.Entry {
	return ledger.Entry{
		UID: uid, Pod: "pod-" + uid, Use: use, Vector: "evict", By: "drainer",
		Since: after(since), Expires: after(since + ledger.Bound), Version: "100", Generation: 1, Restarts: 3,
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
			want := ledger.Leaving
			if first == second {
				want = first
			}
			if got := b.Entries["1"].Use; got != want {
				t.Errorf("%s and then %s: %s, want %s", first, second, got, want)
			}
		}
	}
}

// A second change restarts containers once more, if the first one was written before.
func TestASecondChangeWaitsForItsOwnRestart(t *testing.T) {
	first := entry("1", ledger.Changed, 0)
	retried, second := entry("1", ledger.Changed, 10*time.Second), entry("1", ledger.Changed, 10*time.Second)
	retried.Version, second.Version, second.Generation = "110", "110", 2
	for name, c := range map[string]struct {
		second   ledger.Entry
		restarts int64
		ends     bool
	}{
		"the API server judged it again":             {retried, 4, true},
		"the restart of the first change":            {second, 4, false},
		"the restart of the second change":           {second, 5, true},
		"no restart yet, of either":                  {second, 3, false},
		"the first call is the one that is repeated": {first, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := take(t, ledger.Book{Name: "a"}, first, c.second)
			pod := ledger.PodSeen{Version: "120", Generation: 3, Restarts: c.restarts}
			_, ended := ledger.Observe(b, ledger.Seen{Version: "120", Pods: map[string]ledger.PodSeen{"1": pod}}, after(11*time.Second))
			if (len(ended) == 1) != c.ends {
				t.Errorf("ended %v, want %t", ended, c.ends)
			}
		})
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
	ledger.Place(later, placed("3", "x", start), "")
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

// life is what happens to a changed pod, step by step: at which time the leader sees which pod, and
// whether the entry holds the unit from then on.
type life []struct {
	at    time.Duration
	pod   ledger.PodSeen
	holds bool
}

// The clock ends an entry of a change that was never written. Any other one ends by what the pod shows.
func TestTheEntryOfAChangeEndsByWhatThePodShows(t *testing.T) {
	as := func(version string, generation, restarts int64, edit ...func(*ledger.PodSeen)) ledger.PodSeen {
		p := ledger.PodSeen{Version: version, Generation: generation, Restarts: restarts, Grace: 90 * time.Second}
		for _, e := range edit {
			e(&p)
		}
		return p
	}
	pending := func(p *ledger.PodSeen) { p.Pending = true }
	silent := func(p *ledger.PodSeen) { p.Silent = true }
	resizing := func(p *ledger.PodSeen) { p.Resizing = true }
	infeasible := func(p *ledger.PodSeen) { p.Infeasible = true }
	for name, steps := range map[string]life{
		"never written":                        {{39 * time.Second, as("100", 1, 3), true}, {ledger.Bound, as("100", 1, 3), false}},
		"refused, and the kubelet writes":      {{time.Second, as("101", 1, 3), false}},
		"a label, or a condition":              {{time.Second, as("101", 1, 3), false}},
		"restarted in a second":                {{time.Second, as("101", 2, 3, pending), true}, {2 * time.Second, as("102", 2, 4), false}},
		"restarted before the first look":      {{time.Second, as("103", 2, 4), false}},
		"restarted, before the kubelet saw it": {{time.Second, as("101", 2, 4, pending), true}, {2 * time.Second, as("102", 2, 4), true}, {3 * time.Second, as("103", 2, 5), false}},
		"a preStop hook of 85 s":               {{time.Second, as("101", 2, 3), true}, {86 * time.Second, as("101", 2, 3), true}, {90 * time.Second, as("102", 2, 4), false}},
		"taken back before the kubelet saw it": {{time.Second, as("101", 3, 3), true}, {130 * time.Second, as("101", 3, 3), true}, {131 * time.Second, as("101", 3, 3), false}},
		"the kubelet is silent for an hour":    {{time.Second, as("101", 2, 3, pending), true}, {time.Hour, as("101", 2, 3, pending), true}, {time.Hour + time.Second, as("102", 2, 4), false}},
		"deferred, and a container crashes":    {{time.Second, as("101", 2, 3), true}, {time.Minute, as("102", 2, 5, pending), true}, {time.Hour, as("103", 2, 5, resizing), true}, {2 * time.Hour, as("103", 2, 5, resizing), true}, {3 * time.Hour, as("104", 2, 6, resizing), false}},
		"deferred, and taken back":             {{time.Second, as("101", 2, 3, pending), true}, {time.Hour, as("102", 3, 3), true}, {time.Hour + 130*time.Second, as("102", 3, 3), false}},
		"infeasible":                           {{time.Second, as("101", 2, 3, pending), true}, {2 * time.Second, as("102", 2, 3, infeasible), false}},
		"no generations, and the kubelet is silent for an hour": {
			{time.Second, as("101", 0, 3), true},
			{time.Minute, as("102", 0, 3, silent), true},
			{time.Hour, as("102", 0, 3, silent), true},
			{time.Hour + time.Second, as("103", 0, 3), true},
			{time.Hour + time.Minute, as("104", 0, 4), false},
		},
		"seen, and the node goes silent": {
			{time.Second, as("101", 2, 3), true}, {time.Hour, as("101", 2, 3, silent), true}, {2 * time.Hour, as("102", 2, 4, silent), false},
		},
		"no generations": {{time.Second, as("101", 0, 3), true}, {50 * time.Second, as("102", 0, 3), true}, {60 * time.Second, as("103", 0, 4), false}},
		"no generations, and nothing that starts": {{time.Second, as("101", 0, 3), true}, {130 * time.Second, as("102", 0, 3), true}, {131 * time.Second, as("103", 0, 3), false}},
		"gone, and the cache is older":            {{time.Hour, ledger.PodSeen{Gone: true}, false}},
	} {
		t.Run(name, func(t *testing.T) {
			e := entry("1", ledger.Changed, 0)
			if e.Generation = 1; steps[0].pod.Generation == 0 {
				e.Generation = 0
			}
			b := take(t, ledger.Book{Name: "a"}, e)
			for _, step := range steps {
				seen := ledger.Seen{Version: step.pod.Version, Pods: map[string]ledger.PodSeen{"1": step.pod}}
				b, _ = ledger.Refresh(b, seen, after(step.at))
				if _, fresh := ledger.Refresh(b, seen, after(step.at)); fresh {
					t.Errorf("after %s: refreshed twice", step.at)
				}
				b, _ = ledger.Observe(b, seen, after(step.at))
				if got := b.Entries["1"]; got.Holds(after(step.at)) != step.holds {
					t.Fatalf("after %s: %+v holds its unit %t, want %t", step.at, got, !step.holds, step.holds)
				}
			}
		})
	}
}

// A pod that is changed, and whose deletion fails, is still changed.
func TestAFailedDeletionEndsNoChange(t *testing.T) {
	deletion := entry("1", ledger.Gone, 10*time.Second)
	deletion.Version, deletion.Generation = "110", 2 // the change is written
	behind := func(generation, restarts int64, pending bool) ledger.Seen {
		pod := ledger.PodSeen{Version: "110", Generation: generation, Restarts: restarts, Pending: pending}
		return ledger.Seen{Version: "120", Pods: map[string]ledger.PodSeen{"1": pod}}
	}
	old := behind(0, 3, false)
	over := 10*time.Second + ledger.Bound
	for name, c := range map[string]struct {
		seen  ledger.Seen
		holds bool
	}{
		"the kubelet has not seen the change": {behind(2, 3, true), true},
		"no container was restarted yet":      {behind(2, 3, false), true},
		"the containers were restarted":       {behind(2, 4, false), false},
		"the cluster gives no generations":    {old, true},
	} {
		t.Run(name, func(t *testing.T) {
			change, deletion := entry("1", ledger.Changed, 0), deletion
			if c.seen.Pods["1"].Generation == 0 {
				change.Generation, deletion.Generation = 0, 0
			}
			b := take(t, ledger.Book{Name: "a"}, change, deletion)
			if _, fresh := ledger.Refresh(b, c.seen, after(11*time.Second)); fresh || b.Entries["1"].Use != ledger.Leaving {
				t.Errorf("%+v, want the entry of a pod that goes", b.Entries["1"])
			}
			if !b.Entries["1"].Holds(after(over + time.Hour)) {
				t.Error("the clock ends it")
			}
			b, _ = ledger.Refresh(b, c.seen, after(over))
			b, _ = ledger.Observe(b, c.seen, after(over))
			if _, holds := b.Entries["1"]; holds != c.holds {
				t.Errorf("entries %+v, want one: %t", b.Entries, c.holds)
			}
		})
	}
}

// A replica that finds no leader counts an entry of a change as the leader left it.
func TestOnlyALookAtThePodEndsAChange(t *testing.T) {
	for use, want := range map[ledger.Use]bool{ledger.Gone: false, ledger.Placed: false, ledger.Changed: true, ledger.Restarting: true, ledger.Leaving: true} {
		if got := entry("1", use, 0).Holds(after(time.Hour)); got != want {
			t.Errorf("%s holds its unit %t, want %t", use, got, want)
		}
	}
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
	if taken < 400 || taken == ledger.MostEntries {
		t.Errorf("%d entries of the greatest size", taken)
	}
}

func TestOnlyTheFailedRequestGivesItsUnitBack(t *testing.T) {
	first, second := entry("1", ledger.Gone, 0), entry("1", ledger.Gone, time.Second)
	alone, both := take(t, ledger.Book{}, first), take(t, ledger.Book{}, first, second)
	if b, ok := ledger.Remove(alone, first); !ok || len(b.Entries) != 0 {
		t.Errorf("removed %v, entries %v, want none", ok, b.Entries)
	}
	behind := entry("1", ledger.Gone, -time.Second) // another replica, whose clock is behind
	if b, ok := ledger.Remove(take(t, ledger.Book{}, first, behind), first); ok || len(b.Entries) != 1 {
		t.Errorf("removed %v although a request of another replica relies on the entry", ok)
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
	restarted := &ledger.PodSeen{Version: "103", Generation: 2, Restarts: 4}
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
		"deleted pod that was restarted":    {ledger.Gone, at("105", restarted), time.Second, ""},
		"changed pod terminates":            {ledger.Changed, at("105", &ledger.PodSeen{Version: "103", Going: true}), time.Second, "103"},
		"changed pod that was restarted":    {ledger.Changed, at("105", restarted), time.Second, "103"},
		"the last moment":                   {ledger.Gone, at("105", &ledger.PodSeen{Version: "100"}), ledger.Bound - 1, ""},
		"expired":                           {ledger.Gone, at("105", &ledger.PodSeen{Version: "100"}), ledger.Bound, "105"},
		"expired, and no version is known":  {ledger.Gone, at("", nil), ledger.Bound, "90"},
		"changed, and not looked at":        {ledger.Changed, at("105", nil), time.Hour, ""},
		"never changed":                     {ledger.Changed, at("105", &ledger.PodSeen{Version: "100", Generation: 1}), ledger.Bound, "100"},
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

// A controller comes again after up to 17 minutes.
func TestTheRequestOfAControllerWaitsForLonger(t *testing.T) {
	var b ledger.Book
	for by, workload := range map[string]bool{"bob": false, "system:serviceaccount:karpenter:karpenter": false, "system:serviceaccount:kube-system:statefulset-controller": true} {
		b, _ = ledger.Ask(b, ledger.Waiting{Pod: "web-0", By: by, ByWorkload: workload, Since: start, Last: start})
	}
	for at, want := range map[time.Duration]int{ledger.Lapse - 1: 3, ledger.Lapse: 1, ledger.LongLapse - 1: 1, ledger.LongLapse: 0} {
		if got, _ := ledger.Observe(b, ledger.Seen{}, after(at)); len(got.Waiting) != want {
			t.Errorf("after %s: %v waits, want %d", at, got.Waiting, want)
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
