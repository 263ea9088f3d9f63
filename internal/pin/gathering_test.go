package pin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/pin"
)

// told is the digests of a time, as reason and number of pods.
func told(g *pin.Gathering, at time.Time, confirm func(*pin.Notice) bool) (all []string) {
	for _, d := range g.Due(at, confirm) {
		all = append(all, fmt.Sprintf("%s %d", d.Reason, len(d.Notices)+d.More))
	}
	return all
}

func always(*pin.Notice) bool { return true }

func aNotice(reason, namespace string, i int) pin.Notice {
	pod := fmt.Sprintf("web-%d", i)
	return pin.Notice{
		Reason: reason, Namespace: namespace, Workload: pin.WorkloadName(pod), Pod: pod, UID: types.UID(fmt.Sprint("u", i)), Node: "n1",
		IPs: fmt.Sprintf("10.0.1.%d", i), Until: now.Add(time.Duration(10+i) * time.Minute),
	}
}

// Events of a workload, by the second since the beginning in which they are told.
func TestNoticesOfAWorkloadAreGathered(t *testing.T) {
	const returned, reserved = pin.ReasonReturned, pin.ReasonReserved
	every := func(pods int, gap time.Duration) (at []time.Duration) {
		for i := range pods {
			at = append(at, time.Duration(i)*gap)
		}
		return at
	}
	cases := map[string]struct {
		reasons []string
		at      []time.Duration
		want    []string
	}{
		"one pod":                                {[]string{returned}, every(1, 0), []string{"5s Returned 1"}},
		"fifty pods at ten a second":             {[]string{returned}, every(50, 100*time.Millisecond), []string{"5s Returned 50"}},
		"a hundred pods at ten a second":         {[]string{returned}, every(100, 100*time.Millisecond), []string{"5s Returned 51", "1m5s Returned 49"}},
		"a rollout of 18 pods, one in 10 s":      {[]string{returned}, every(18, 10*time.Second), []string{"5s Returned 1", "1m5s Returned 6", "2m5s Returned 6", "3m5s Returned 5"}},
		"two pods of a slow rollout":             {[]string{returned}, every(2, 2*time.Minute), []string{"5s Returned 1", "2m5s Returned 1"}},
		"each reason has events of its own":      {[]string{returned, reserved}, every(2, time.Second), []string{"5s Returned 2", "10s Reserved 2"}},
		"addresses that are over, or given away": {[]string{pin.ReasonExpired, pin.ReasonReclaimed, pin.ReasonConflict}, every(1, 0), []string{"15s Reclaimed 1", "15s Expired 1", "1m0s Conflict 1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := pin.Gathering{Pace: pin.UsualPace}
			var got []string
			for at := time.Duration(0); at < 10*time.Minute; at += 100 * time.Millisecond {
				for i, add := range tc.at {
					for _, reason := range tc.reasons {
						if add == at {
							g.Add(now.Add(at), aNotice(reason, "team", i))
						}
					}
				}
				if at%time.Second == 0 {
					for _, d := range told(&g, now.Add(at), always) {
						got = append(got, at.String()+" "+d)
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if n := g.Remembered(); n != 0 {
				t.Errorf("%d entries stay in memory", n)
			}
		})
	}
}

// Notices are dropped that are not true any more when they would be told, and cost no event.
func TestNoticesThatAreOverAreNotTold(t *testing.T) {
	g := pin.Gathering{Pace: pin.UsualPace}
	for i := range 4 {
		g.Add(now, aNotice(pin.ReasonReserved, "team", i))
		g.Add(now, aNotice(pin.ReasonReserved, "other", i))
	}
	stays := func(n *pin.Notice) bool { return n.Namespace == "team" && n.Pod != "web-0" }
	if got := told(&g, now.Add(10*time.Second), stays); !slices.Equal(got, []string{"Reserved 3"}) {
		t.Errorf("told %q, want the three pods that are away", got)
	}
	g.Add(now.Add(11*time.Second), aNotice(pin.ReasonReserved, "other", 5))
	if got := told(&g, now.Add(21*time.Second), always); !slices.Equal(got, []string{"Reserved 1"}) {
		t.Errorf("told %q, want the pod at once: nothing was told of its workload", got)
	}
}

// A tenant has 5 000 workloads whose pods end and return without end. It gets a bounded number of events,
// its warnings first. The memory is bounded, and a pod of another namespace is told as soon as always.
func TestEventsOfANamespaceAreBounded(t *testing.T) {
	const while = 300
	g, evil, leftOut, warned := pin.Gathering{Pace: pin.UsualPace}, 0, false, 0
	for second := range while {
		at := now.Add(time.Duration(second) * time.Second)
		for i := range 50 {
			n := aNotice(pin.ReasonReserved, "evil", i)
			n.Workload = fmt.Sprint("app", (second*50+i)%5000)
			g.Add(at, n)
		}
		if second == while-100 {
			g.Add(at, aNotice(pin.ReasonReclaimed, "evil", 1))
		}
		if second == while-10 {
			g.Add(at, aNotice(pin.ReasonReturned, "good", 1))
		}
		good := 0
		for _, d := range g.Due(at, always) {
			if d.Namespace == "good" {
				good++
				continue
			}
			evil++
			if d.Warning() {
				warned = second
			}
			leftOut = leftOut || strings.Contains(d.Text(), "further notices of this namespace were left out")
		}
		if want := second == while-5; (good == 1) != want {
			t.Errorf("second %d: %d events of the other namespace", second, good)
		}
		if g.Kept() > pin.UsualPace.KeptOfNamespace*11/10 {
			t.Fatalf("%d notices wait", g.Kept())
		}
	}
	if warned < while-85 || warned > while-80 {
		t.Errorf("second %d: the warning, want it with the next event after 15 s", warned)
	}
	if most := pin.UsualPace.OfNamespace.Burst + while/2; evil > most || evil < while/2 || !leftOut {
		t.Errorf("%d events in five minutes, want at most %d and hardly fewer; the rest is counted: %v", evil, most, leftOut)
	}
}

// Many namespaces together make a bounded number of events, and none of them waits for long.
func TestEventsOfAllNamespacesAreBounded(t *testing.T) {
	g, total, of := pin.Gathering{Pace: pin.UsualPace}, 0, map[string]int{}
	for second := range 200 {
		at := now.Add(time.Duration(second) * time.Second)
		for i := range 30 {
			n := aNotice(pin.ReasonReturned, fmt.Sprint("team", i), second)
			n.Workload = fmt.Sprint("app", second)
			g.Add(at, n)
		}
		for _, d := range g.Due(at, always) {
			total++
			of[d.Namespace]++
		}
	}
	if most := pin.UsualPace.OfAll.Burst + 2000; total > most || total < most-100 {
		t.Errorf("%d events in 200 s, want about %d", total, most)
	}
	for namespace, n := range of {
		if n < total/len(of)/2 {
			t.Errorf("%s has %d of %d events", namespace, n, total)
		}
	}
}

// The two pods of a conflict are each seen when they start.
func TestAConflictIsToldOnceForEachPod(t *testing.T) {
	g := pin.Gathering{Pace: pin.UsualPace}
	for range 3 {
		g.Add(now, aNotice(pin.ReasonConflict, "team", 1))
		g.Add(now, aNotice(pin.ReasonConflict, "team", 2))
	}
	if got := told(&g, now.Add(time.Minute), always); !slices.Equal(got, []string{"Conflict 2"}) {
		t.Errorf("told %q", got)
	}
}

func TestTextOfADigest(t *testing.T) {
	of := func(reason string, pods, more int) pin.Digest {
		d := pin.Digest{Reason: reason, Namespace: "team", More: more}
		for i := range pods {
			n := aNotice(reason, "team", i+1)
			n.Other = types.NamespacedName{Namespace: "team", Name: "db-0"}
			d.Notices = append(d.Notices, n)
		}
		return d
	}
	elsewhere := of(pin.ReasonReclaimed, 1, 0)
	elsewhere.Notices[0].Other.Namespace = "payroll"
	own := of(pin.ReasonReturned, 1, 0)
	own.Notices[0].Text = "on node n1 with 10.0.1.1"
	left := of(pin.ReasonExpired, 1, 0)
	left.LeftOut = 7
	cases := map[string]struct {
		digest pin.Digest
		want   string
	}{
		"reserved":                     {of(pin.ReasonReserved, 1, 0), "pod web-1 has ended, and 10.0.1.1 stays reserved for it on node n1 until 2026-01-02 03:15:05 UTC"},
		"reserved, several":            {of(pin.ReasonReserved, 2, 0), "2 pods have ended, and their addresses stay reserved for them, the first until 2026-01-02 03:15:05 UTC: web-1 (10.0.1.1 on n1), web-2 (10.0.1.2 on n1)"},
		"returned":                     {own, "on node n1 with 10.0.1.1"},
		"returned, several":            {of(pin.ReasonReturned, 3, 0), "3 pods are Ready again in their places: web-1 (10.0.1.1 on n1), web-2 (10.0.1.2 on n1), web-3 (10.0.1.3 on n1)"},
		"returned, more than are kept": {of(pin.ReasonReturned, 1, 9), "10 pods are Ready again in their places: web-1 (10.0.1.1 on n1), and 9 more"},
		"expired, and others left out": {left, "the reservation of 10.0.1.1 on node n1 for pod web-1 has ended, and the pod did not come back to it; 7 further notices of this namespace were left out"},
		"reclaimed":                    {of(pin.ReasonReclaimed, 1, 0), "pod db-0 got 10.0.1.1 of node n1, which was reserved for pod web-1 until 2026-01-02 03:15:05 UTC"},
		"reclaimed by another tenant":  {elsewhere, "a pod of another namespace got 10.0.1.1 of node n1, which was reserved for pod web-1 until 2026-01-02 03:15:05 UTC"},
		"given up":                     {of(pin.ReasonGivenUp, 1, 0), "a user gave up 10.0.1.1 on node n1, which was reserved for pod web-1 until 2026-01-02 03:15:05 UTC"},
		"given up, several":            {of(pin.ReasonGivenUp, 2, 0), "users gave up 2 reservations: web-1 (10.0.1.1 on n1), web-2 (10.0.1.2 on n1)"},
		"conflict":                     {of(pin.ReasonConflict, 1, 0), "pod web-1 and pod db-0 both have 10.0.1.1 on node n1; look with: limpet-ipam check"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.digest.Text()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

// The API refuses a longer text than 1024 bytes.
func TestTextOfADigestIsBounded(t *testing.T) {
	for _, reason := range []string{pin.ReasonReserved, pin.ReasonReturned, pin.ReasonExpired, pin.ReasonGivenUp, pin.ReasonReclaimed, pin.ReasonConflict} {
		for _, pods := range []int{1, 2, 11, 200} {
			for _, length := range []int{1, 63, 253, 3000} {
				d := pin.Digest{Reason: reason, Namespace: "team", LeftOut: 1_000_000, More: 100_000 * (pods - 1)}
				for i := range pods {
					n := aNotice(reason, "team", i)
					n.Pod, n.IPs, n.Node = strings.Repeat("ä", length), strings.Repeat("1", length), strings.Repeat("n", length)
					d.Notices = append(d.Notices, n)
				}
				if text := d.Text(); len(text) > 1024 || text == "" || !strings.HasSuffix(text, "left out") {
					t.Errorf("%s of %d pods with names of %d signs: %d bytes: %s", reason, pods, length, len(text), text)
				}
			}
		}
	}
}

func TestWorkloadName(t *testing.T) {
	for pod, want := range map[string]string{"web-0": "web", "my-db-12": "my-db", "single": "single", "-0": "-0"} {
		if got := pin.WorkloadName(pod); got != want {
			t.Errorf("%s: %s, want %s", pod, got, want)
		}
	}
}

// A pod whose notice waits is counted once, also where no further pods are kept one by one, and where there is no room for any.
func TestNoPodIsCountedTwice(t *testing.T) {
	for name, tc := range map[string]struct {
		pods int // of the workload
		pace func(*pin.Pace)
	}{
		"more pods than are kept":      {250, func(*pin.Pace) {}},
		"no room in the namespace":     {3, func(p *pin.Pace) { p.KeptOfNamespace = 3 }},
		"no room in the whole cluster": {3, func(p *pin.Pace) { p.KeptOfAll = 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			g := pin.Gathering{Pace: pin.UsualPace}
			tc.pace(&g.Pace)
			for i := range tc.pods {
				g.Add(now, aNotice(pin.ReasonReserved, "team", i))
			}
			g.Add(now, aNotice(pin.ReasonReserved, "team", 0)) // again
			if got, want := told(&g, now.Add(time.Minute), always), fmt.Sprint("Reserved ", tc.pods); !slices.Equal(got, []string{want}) {
				t.Errorf("told %q, want %q", got, want)
			}
		})
	}
}

// A pod that ends again before its end is told is one pod. What is told is its last end.
func TestAPodThatEndsTwiceIsToldOnce(t *testing.T) {
	for reason, want := range map[string]int{pin.ReasonReserved: 1, pin.ReasonReturned: 1, pin.ReasonExpired: 2} {
		g := pin.Gathering{Pace: pin.UsualPace}
		again := aNotice(reason, "a", 0)
		again.UID, again.Node = "later", "n2"
		g.Add(now, aNotice(reason, "a", 0))
		g.Add(now, again)
		digests := g.Due(now.Add(time.Minute), always)
		if len(digests) != 1 || len(digests[0].Notices) != want || digests[0].Notices[want-1].Node != "n2" || g.Kept() != 0 {
			t.Errorf("%s: %+v, %d left, want %d notices, the last of node n2", reason, digests, g.Kept(), want)
		}
	}
}
