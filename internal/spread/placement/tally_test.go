package placement

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// cell is the pods of a namespace as a watch tells them.
type cell struct {
	tally   *Tally
	clock   *testingclock.FakePassiveClock
	pods    map[string]*corev1.Pod
	version int
}

func newCell() *cell {
	clock := testingclock.NewFakePassiveClock(noon)
	return &cell{tally: New(clock), clock: clock, pods: map[string]*corev1.Pod{}, version: 98}
}

// put tells the tally of a pod's new state; nil is its deletion.
func (c *cell) put(name string, pod *corev1.Pod) {
	c.version++
	before := c.pods[name]
	switch {
	case pod == nil:
		last := before.DeepCopy()
		last.ResourceVersion = strconv.Itoa(c.version)
		delete(c.pods, name)
		c.tally.observe(last, nil)
		return
	case before == nil:
		pod.CreationTimestamp = metav1.NewTime(c.clock.Now())
	}
	pod.ResourceVersion = strconv.Itoa(c.version)
	c.pods[name] = pod
	c.tally.observe(before, pod)
}

func aPod(namespace, name, owner, match string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name + "-uid")}}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
	if match != "" {
		pod.Annotations = map[string]string{appsv1beta1.AnnotationMatchedSpread: match}
	}
	return pod
}

func match(spread, subset, uid string) string {
	return appsv1beta1.Match{Name: spread, Subset: subset, UID: uid}.String()
}

// recount counts the pods of an owner from their present states.
func (c *cell) recount(q Query) View {
	v := View{Subsets: map[string]int32{}}
	for _, pod := range c.pods {
		if !workload.Alive(pod) || pod.Namespace != q.Namespace {
			continue
		}
		m, err := appsv1beta1.ParseMatch(pod.Annotations[appsv1beta1.AnnotationMatchedSpread])
		ours := err == nil && m.Name == q.Spread
		own := controllerOf(pod) == q.Owner
		if ours && (own || q.Together) && controllerOf(pod) != "" {
			v.Subsets[m.Subset]++
		}
		if own {
			v.Pods++
			if !ours {
				v.Others++
			}
		}
	}
	return v
}

// The counts are right after any sequence of changes.
func TestTallyCountsAsARecountDoes(t *testing.T) {
	ignore := cmpopts.IgnoreFields(View{}, "Version", "Unplaced", "Seen", "Settled")
	for seed := range uint64(200) {
		r, c := rand.New(rand.NewPCG(seed, 1)), newCell()
		for range 100 {
			name := fmt.Sprintf("p%d", r.IntN(8))
			before := c.pods[name]
			switch {
			case before != nil && r.IntN(3) == 0:
				c.put(name, nil)
			case before != nil && r.IntN(3) == 0:
				after := before.DeepCopy()
				after.DeletionTimestamp = &metav1.Time{Time: noon}
				c.put(name, after)
			case before != nil && r.IntN(2) == 0:
				after := before.DeepCopy()
				after.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed}[r.IntN(2)]
				c.put(name, after)
			default: // also another pod of the name, or another owner or subset
				text := []string{"", "no match", match("s", "a", "u"), match("s", "b", ""), match("other", "a", "")}[r.IntN(5)]
				pod := aPod([]string{"ns", "ns2"}[r.IntN(2)], name, []string{"", "rs1", "rs2"}[r.IntN(3)], text)
				if before != nil {
					pod.Namespace = before.Namespace
				}
				c.put(name, pod)
			}
			for _, q := range []Query{
				{Namespace: "ns", Owner: "rs1", Spread: "s"},
				{Namespace: "ns", Owner: "rs2", Spread: "s", Together: true},
				{Namespace: "ns2", Owner: "rs1", Spread: "other"},
			} {
				if diff := cmp.Diff(c.recount(q), c.tally.View(q), ignore); diff != "" {
					t.Fatalf("seed %d, %+v (-recount +tally):\n%s", seed, q, diff)
				}
			}
		}
		for name := range c.pods {
			c.put(name, nil)
		}
		if len(c.tally.owners)+len(c.tally.spreads) != 0 {
			t.Fatalf("seed %d: the tally keeps owners without pods", seed)
		}
	}
}

// A creation is remembered for longer than its entry lasts, also when its pod is gone, and not
// without end.
func TestTallyRemembersCreations(t *testing.T) {
	c := newCell()
	q := Query{Namespace: "ns", Owner: "rs", Spread: "s", Creations: []Creation{{Key: "request"}, {Key: "/named", After: "100"}, {Key: "none"}}}
	seen := func(want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, c.tally.View(q).Seen, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("seen (-want +got):\n%s", diff)
		}
	}
	c.put("generated", aPod("ns", "generated", "rs", match("s", "a", "request"))) // version 99
	c.put("elsewhere", aPod("ns2", "elsewhere", "rs", match("s", "a", "none")))   // 100
	seen(map[string]string{"request": "99"})
	c.put("named", aPod("ns", "named", "rs", match("s", "a", "")))
	seen(map[string]string{"request": "99", "/named": "101"})
	q.Creations[1].After = "101" // the pod of the name is the predecessor
	seen(map[string]string{"request": "99"})
	c.put("generated", nil)
	settled := func() map[string]string { return c.tally.View(q).Settled }
	if got := settled(); len(got) != 0 {
		t.Errorf("entries end at once: %v", got)
	}
	c.clock.SetTime(noon.Add(lingers))
	if diff := cmp.Diff(map[string]string{"request": "99"}, settled()); diff != "" {
		t.Errorf("entries that may end (-want +got):\n%s", diff)
	}
	c.clock.SetTime(noon.Add(remembered))
	c.put("later", aPod("ns", "later", "rs", match("s", "a", "later")))
	seen(map[string]string{"request": "99"})
	for range 2 {
		c.clock.SetTime(c.clock.Now().Add(remembered + time.Second))
		c.put("again", aPod("ns", "again", "rs", match("s", "a", strconv.Itoa(c.version))))
		c.put("again", nil)
	}
	seen(nil)
}

// A pod that was replaced by one of its name between two lists is seen in one event, whose states count the same.
func TestTallyRemembersAReplacedPod(t *testing.T) {
	c := newCell()
	c.put("named", aPod("ns", "named", "set", match("s", "a", ""))) // version 99
	successor := c.pods["named"].DeepCopy()
	successor.UID = "another"
	c.put("named", successor)
	v := c.tally.View(Query{Namespace: "ns", Owner: "set", Spread: "s", Creations: []Creation{{Key: "/named", After: "99"}}})
	if v.Seen["/named"] != "100" || v.Subsets["a"] != 1 {
		t.Errorf("%+v, want the successor to be seen, and counted once", v)
	}
}

// The pods that were there when a replica starts are in no book.
func TestTallyDoesNotRememberOldPods(t *testing.T) {
	c := newCell()
	pod := aPod("ns", "old", "rs", match("s", "a", "request"))
	pod.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	pod.ResourceVersion = "7"
	c.tally.observe(nil, pod)
	v := c.tally.View(Query{Namespace: "ns", Owner: "rs", Spread: "s", Creations: []Creation{{Key: "request"}}})
	if len(v.Seen) != 0 || v.Subsets["a"] != 1 || v.Version != "7" {
		t.Errorf("%+v", v)
	}
}

func TestTallyWakesThoseWhoWait(t *testing.T) {
	c := newCell()
	changed := c.tally.Changed()
	select {
	case <-changed:
		t.Fatal("nothing has changed")
	default:
	}
	before := c.tally.View(Query{Namespace: "ns", Owner: "rs", Spread: "s"}).Unplaced
	c.put("web", aPod("ns", "web", "rs", ""))
	<-changed
	if after := c.tally.View(Query{Namespace: "ns", Owner: "rs", Spread: "s"}).Unplaced; after == before {
		t.Error("a pod without a subset is not noticed")
	}
}

func BenchmarkObserve(b *testing.B) {
	c := newCell()
	before := aPod("ns", "web", "rs", match("s", "a", "0b8f0d7c-6f4c-4a52-9f43-4f64d5ba4a1e"))
	before.ResourceVersion = "100"
	after := before.DeepCopy()
	after.ResourceVersion = "101"
	c.tally.observe(nil, before)
	for b.Loop() {
		c.tally.observe(before, after)
	}
}

// controllerOf returns the UID of a pod's controller; "" for a pod without one.
func controllerOf(pod *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return ref.UID
	}
	return ""
}
