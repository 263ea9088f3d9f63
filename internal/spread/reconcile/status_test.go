package reconcile_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	controller "github.com/limpet-io/limpet/internal/spread/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// The numbers are those of OpenKruise: missingReplicas is -1 without a maximum, and never negative else.
func TestStatusCountsPods(t *testing.T) {
	start(t)
	a := anApp(t, 10)
	x := node(t, "x")
	ws := spreadOf(t, a, "20%", nil, "x", "y")
	shows(t, ws, "x:0/2 y:0/-1 Placed")
	for _, name := range []string{"p1", "p2", "p3"} {
		a.pod(t, name, x, match, matched("x"))
	}
	gone := a.pod(t, "p4", node(t, "y"), match, matched("y"))
	shows(t, ws, "x:3/0 y:1/-1 Placed")
	env.Patch(t, a.Deployment, `{"spec":{"replicas":20}}`)
	shows(t, ws, "x:3/1 y:1/-1 Placed")
	env.Remove(t, gone)
	shows(t, ws, "x:3/1 y:0/-1 Placed")

	var now appsv1beta1.WorkloadSpread
	env.Read(t, client.ObjectKeyFromObject(ws), &now)
	if v := now.Status.VersionedSubsetStatuses["1"]; len(v) != 2 || v[0].Replicas != 3 || v[0].MissingReplicas != 1 {
		t.Errorf("versions %+v", now.Status.VersionedSubsetStatuses)
	}
}

// A creation on its way counts until its pod is seen, also if the pod is gone a moment later.
func TestStatusCountsACreationOnce(t *testing.T) {
	start(t)
	a := anApp(t, 2)
	x := node(t, "x")
	ws := spreadOf(t, a, "2", nil, "x", "y")
	shows(t, ws, "x:0/2 y:0/-1 Placed")
	book := books.New(books.Options{Client: env.Client, Cached: env.Client, Live: env.Client, Clock: clock.RealClock{}})
	_, err := book.Decide(t.Context(), books.OfSpread(ws), func(b ledger.Book) (ledger.Book, bool) {
		now := time.Now()
		return ledger.Place(b, ledger.Entry{UID: "u", Subset: "x", Owner: string(a.set.UID), Since: now, Expires: now.Add(time.Hour)}, ""), true
	})
	if err != nil {
		t.Fatal(err)
	}
	shows(t, ws, "x:0/1 y:0/-1 Placed")
	pod := a.pod(t, "p", x, match, appsv1beta1.Match{Name: "ws", Subset: "x", UID: "u"}.String())
	shows(t, ws, "x:1/1 y:0/-1 Placed")
	env.Remove(t, pod)
	shows(t, ws, "x:0/2 y:0/-1 Placed")
}

// ahead is a clock that a test puts forward.
type ahead struct {
	clock.RealClock
	by atomic.Int64
}

func (c *ahead) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

// TestACreationWithoutAPodEndsAfterAScaleDown has a creation whose pod never came, as a quota or a scale-down before it leaves
// it. Nothing but the time ends it, and no event comes when the time is over.
func TestACreationWithoutAPodEndsAfterAScaleDown(t *testing.T) {
	const bound = 10 * time.Minute
	now := &ahead{}
	startAt(t, now)
	a := anApp(t, 2)
	ws := spreadOf(t, a, "2", nil, "x", "y")
	a.pod(t, "p", node(t, "x"), match, matched("x"))
	shows(t, ws, "x:1/1 y:0/-1 Placed")
	book := books.New(books.Options{Client: env.Client, Cached: env.Client, Live: env.Client, Clock: clock.RealClock{}})
	_, err := book.Decide(t.Context(), books.OfSpread(ws), func(b ledger.Book) (ledger.Book, bool) {
		return ledger.Place(b, ledger.Entry{UID: "u", Subset: "x", Owner: string(a.set.UID), Since: time.Now(), Expires: time.Now().Add(bound)}, ""), true
	})
	if err != nil {
		t.Fatal(err)
	}
	shows(t, ws, "x:1/0 y:0/-1 Placed")
	now.by.Store(int64(bound - 5*time.Second))
	env.Patch(t, a.Deployment, `{"spec":{"replicas":1}}`)
	shows(t, ws, "x:1/1 y:0/-1 Placed")
}

// TestTheStatusFollowsBehindACache has a cache that shows a status after the event that makes it old: the same status is
// to be written again.
func TestTheStatusFollowsBehindACache(t *testing.T) {
	env.Late(t, "workloadspreads", time.Second)
	start(t)
	a := anApp(t, 4)
	ws := spreadOf(t, a, "2", nil, "x", "y")
	shows(t, ws, "x:0/2 y:0/-1 Placed")
	env.Known(t, knows, &appsv1beta1.WorkloadSpreadList{})
	pod := a.pod(t, "p1", node(t, "x"), match, matched("x"))
	shows(t, ws, "x:1/1 y:0/-1 Placed")
	env.Remove(t, pod)
	shows(t, ws, "x:0/2 y:0/-1 Placed")
}

func TestStatusTellsOfPodsWithoutASubset(t *testing.T) {
	start(t)
	a := anApp(t, 2)
	ws := spreadOf(t, a, "1", nil, "x", "y")
	a.pod(t, "p1", node(t, "z"))
	a.pod(t, "p2", "", match, matched("gone"))
	shows(t, ws, "x:0/1 y:0/-1 NoSubsetFits")
	says(t, ws, appsv1beta1.ConditionPlaced, "2 of 2 pods have no subset; 1 run on nodes of no subset; remedy: add these nodes to a subset, or delete these pods; "+
		"1 have no node yet; remedy: raise maxReplicas or add a subset without it, and delete these pods")
}

func TestStatusTellsOfAPatchThatDoesNotApply(t *testing.T) {
	start(t)
	a := anApp(t, 1)
	ws := spreadOf(t, a, "1", func(ws *appsv1beta1.WorkloadSpread) {
		ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"image":"no-name"}]}}`)}
	}, "x", "y")
	a.pod(t, "p1", node(t, "x"), match, matched("x"))
	shows(t, ws, "x:1/0 y:0/-1 PatchFailed")
}

// Pods that were there before get the subset of their node, and the metadata of its patch as far as they lack it.
func TestPodsThatWereThereAreAdopted(t *testing.T) {
	registry := start(t)
	a := anApp(t, 3)
	x, y := node(t, "x"), node(t, "y")
	first, second := a.pod(t, "p1", x), a.pod(t, "p2", y)
	former := a.pod(t, "p3", y, match, `{"name":"former","subset":"x"}`)
	unbound := a.pod(t, "p4", "")
	ws := spreadOf(t, a, "2", func(ws *appsv1beta1.WorkloadSpread) {
		ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(
			`{"metadata":{"labels":{"tier":"hot","app":"other","limpet.dev/x":"y"},"annotations":{"own":"1","limpet.dev/pinned-node":"n"}}}`)}
	}, "x", "y")
	got := placed(t, first, "x")
	if got.Labels["tier"] != "hot" || got.Labels["app"] != "web" || got.Labels["limpet.dev/x"] != "" || got.Annotations["own"] != "1" || len(got.Annotations) != 2 {
		t.Errorf("labels %v, annotations %v", got.Labels, got.Annotations)
	}
	placed(t, second, "y")
	placed(t, former, "y")
	shows(t, ws, "x:1/1 y:2/-1 NoSubsetFits")
	env.Remove(t, unbound)
	shows(t, ws, "x:1/1 y:2/-1 Placed")
	env.Told(t, ws, controller.ReasonAdopted, "pods that were there before got a subset")
	counts(t, registry, 3)
}

// counts waits until so many pods were adopted.
func counts(t *testing.T, registry *prometheus.Registry, want float64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		families, err := registry.Gather()
		for _, f := range families {
			if f.GetName() == "limpet_spread_pods_total" && f.Metric[0].Counter.GetValue() != want {
				return fmt.Errorf("adopted %v, want %v", f.Metric[0], want)
			}
		}
		return err
	})
}

// The second pod has changed since the cache showed it, so that its first write fails.
func TestAnAdoptedPodCountsBeforeAnotherFails(t *testing.T) {
	env.Late(t, "pods", time.Second)
	registry := start(t)
	a := anApp(t, 2)
	x := node(t, "x")
	first, second := a.pod(t, "p1", x), a.pod(t, "p2", x)
	if first.CreationTimestamp.Equal(&second.CreationTimestamp) && second.UID < first.UID {
		first, second = second, first
	}
	env.Known(t, knows, &corev1.NodeList{}, &corev1.PodList{})
	env.Patch(t, second, `{"metadata":{"labels":{"changed":"true"}}}`)
	spreadOf(t, a, "2", nil, "x", "y")
	placed(t, first, "x")
	placed(t, second, "x")
	counts(t, registry, 2)
}

func TestAdoptionMayLeaveTheMetadataAlone(t *testing.T) {
	start(t)
	a := anApp(t, 1)
	pod := a.pod(t, "p1", node(t, "x"))
	spreadOf(t, a, "2", func(ws *appsv1beta1.WorkloadSpread) {
		ws.Annotations = map[string]string{appsv1beta1.AnnotationKeepMetadata: "true"}
		ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"tier":"hot"}}}`)}
	}, "x", "y")
	if got := placed(t, pod, "x"); got.Labels["tier"] != "" {
		t.Errorf("labels %v", got.Labels)
	}
}

// Pods that no subset can adopt keep no other pod from it, however many there are.
func TestPodsThatNoSubsetAdoptsDelayNoOther(t *testing.T) {
	a := anApp(t, 60)
	outside := node(t, "elsewhere")
	var last *corev1.Pod
	for i := range 55 {
		last = a.pod(t, fmt.Sprint("old-", i), outside)
	}
	testenv.Eventually(t, func() error { // pods of one second have no order
		if since := time.Since(last.CreationTimestamp.Time); since < 2*time.Second {
			return fmt.Errorf("the last pod is %v old", since)
		}
		return nil
	})
	young := a.pod(t, "young", node(t, "x"))
	ws := spreadOf(t, a, "2", nil, "x", "y")
	start(t)
	placed(t, young, "x")
	shows(t, ws, "x:1/1 y:0/-1 NoSubsetFits")
}

// A pod that is gone tells nothing about the patches of later subsets.
func TestStatusTellsOfALaterPatchThatDoesNotApply(t *testing.T) {
	start(t)
	a := anApp(t, 2)
	gone.Store("gone")
	t.Cleanup(func() { gone.Store("") })
	a.pod(t, "gone", node(t, "x"), match, matched("x"))
	a.pod(t, "p1", node(t, "y"), match, matched("y"))
	ws := spreadOf(t, a, "1", func(ws *appsv1beta1.WorkloadSpread) {
		ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}
		ws.Spec.Subsets[1].Patch = runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"image":"no-name"}]}}`)}
	}, "x", "y")
	shows(t, ws, "x:1/0 y:1/-1 PatchFailed")
}
