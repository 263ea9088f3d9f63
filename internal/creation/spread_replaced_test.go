package creation_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/creation"
	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	spreadadmit "github.com/limpet-io/limpet/internal/spread/admit"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// waiting is a clock that stands while the pods lag, however long the cache needs then to show them, and calls first when a
// request waits for the first time.
type waiting struct {
	clock.RealClock
	lag   *atomic.Bool
	at    time.Time
	first func()
}

func (w waiting) Now() time.Time {
	if w.lag.Load() {
		return w.at
	}
	return w.RealClock.Now()
}

func (w waiting) After(d time.Duration) <-chan time.Time {
	w.first()
	return w.RealClock.After(d)
}

// lagging is the webhook of a replica that sees changes of pods after lag was set only when a request
// has waited, or show is called.
func lagging(t *testing.T) (webhook *creation.Handler, lag *atomic.Bool, show func()) {
	t.Helper()
	lag, seen := &atomic.Bool{}, make(chan struct{})
	needs := []cluster.Needs{pincontroller.Needs(), workloads.Needs(namespaces...), spreadadmit.Needs()}
	options := cluster.CacheOptions(needs...)
	for object, by := range options.ByObject {
		if _, ok := object.(*corev1.Pod); !ok {
			continue
		}
		kept := by.Transform
		by.Transform = func(o any) (any, error) {
			if lag.Load() {
				<-seen
			}
			return kept(o)
		}
		options.ByObject[object] = by
	}
	c := env.RunCache(t, options, func(c client.FieldIndexer) error { return cluster.AddIndexes(t.Context(), c, needs...) })
	filled(t, c)
	show = sync.OnceFunc(func() { close(seen) })
	t.Cleanup(show)
	reader := &workloads.Reader{Registry: registry, Cached: c, Live: serving.GetAPIReader(), Namespaces: namespaces}
	planner, err := newSpread(t.Context(), serving, c.(cache.Cache), reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	planner.Clock = waiting{lag: lag, at: now, first: show}
	synced(t, planner)
	ahead := testingclock.NewFakePassiveClock(now.Add(time.Minute)) // by so much a request has longer
	return &creation.Handler{Planners: []creation.Planner{planner}, MaxReservation: time.Hour, Clock: ahead, Labelled: true}, lag, show
}

// A CloneSet replaces a pod before the cache shows the deletion. The webhook waits, and the new pod
// gets the subset of the deleted one. A pod beyond the size of the CloneSet waits without effect, and is
// not refused.
func TestAReplacedPodOfACloneSetKeepsTheSubset(t *testing.T) {
	serve(t)
	env.ServeKind(t, testenv.CloneSets)
	env.AggregateRights(t)
	ns := env.Namespace(t)
	set := env.OfKind(t, testenv.CloneSets, ns, "web", map[string]any{"replicas": int64(2)})
	testenv.Eventually(t, func() error { // the rights of the controller hold a moment later
		scale := &unstructured.Unstructured{}
		scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
		return serving.GetClient().SubResource("scale").Get(t.Context(), set, scale)
	})
	env.Create(t, aSpread(ns, "web", "apps.kruise.io/v1alpha1", "CloneSet", "web", "a=1", "b"))
	of := func(name string) testenv.Pod { return testenv.APod(name).In(ns).Of(set, testenv.CloneSets) }
	sent(t, of("probe").Pod)
	pods := placed(t, "a b", of("web-1").Pod, of("web-2").Pod)
	webhook, lag, _ := lagging(t)
	if got := chosen(t, webhook.Handle(t.Context(), createIn(t, of("web-3"), true))); got != "b" {
		t.Errorf("a dry run has subset %q", got)
	}
	lag.Store(true)
	env.Remove(t, pods[0])
	if got := chosen(t, webhook.Handle(t.Context(), createIn(t, of("web-3"), false))); got != "a" {
		t.Errorf("the pod that replaces another one has subset %q", got)
	}
	lag.Store(false)
	if got := chosen(t, webhook.Handle(t.Context(), createIn(t, of("web-4"), false))); got != "b" {
		t.Errorf("a pod beyond the size has subset %q", got)
	}
}

// Pods of a subset that was removed count in the subset of their node, before the leader adopts them.
func TestPodsOfARemovedSubsetCount(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	_, rs := aDeployment(t, ns, 3)
	set := testenv.AStatefulSet("db", 2).In(ns).StatefulSet
	env.Create(t, set, testenv.ANode(ns+"-a").Labelled(corev1.LabelTopologyZone, "a").Node)
	web, db := aSpread(ns, "web", "apps/v1", "Deployment", "web", "old=1", "b"), aSpread(ns, "db", "apps/v1", "StatefulSet", "db", "old=1", "b")
	env.Create(t, web, db)
	sent(t, generated(rs))
	before := generated(rs)
	of := func(ordinal string) *corev1.Pod { return testenv.APod("db-" + ordinal).In(ns).OwnedBy(set).Pod }
	zero := of("0")
	placed(t, "old old", before, zero)
	bindTo(t, ns+"-a", before, zero)
	withoutOld(t, web, db)
	foreseen(t, "b", generated(rs))
	foreseen(t, "b", of("1"))
	placed(t, "b b", generated(rs), of("1"))
}

// bindTo binds pods, as a scheduler does.
func bindTo(t *testing.T, node string, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if err := env.Client.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}); err != nil {
			t.Fatal(err)
		}
	}
}

// withoutOld replaces the subsets of spreads by a, with one pod at most, and b.
func withoutOld(t *testing.T, spreads ...*appsv1beta1.WorkloadSpread) {
	t.Helper()
	for _, s := range spreads {
		env.Patch(t, s, `{"spec":{"subsets":[
			{"name":"a","maxReplicas":1,"requiredNodeSelector":{"matchExpressions":[{"key":"topology.kubernetes.io/zone","operator":"In","values":["a"]}]}},{"name":"b"}]}}`)
	}
}

// A replica may learn that a subset was removed before it learns where a pod of that subset was bound. It counts the pod then.
func TestAPodOfARemovedSubsetCountsOnceItsNodeIsKnown(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	_, rs := aDeployment(t, ns, 3)
	web := aSpread(ns, "web", "apps/v1", "Deployment", "web", "old=1", "b")
	env.Create(t, web, testenv.ANode(ns+"-a").Labelled(corev1.LabelTopologyZone, "a").Node)
	sent(t, generated(rs))
	before := generated(rs)
	placed(t, "old", before)
	webhook, lag, show := lagging(t)
	lag.Store(true)
	bindTo(t, ns+"-a", before)
	withoutOld(t, web)
	for _, want := range []string{"a", "b"} { // before and after it knows
		testenv.Eventually(t, func() error {
			if got := chosen(t, webhook.Handle(t.Context(), createIn(t, testenv.Pod{Pod: generated(rs)}, true))); got != want {
				return fmt.Errorf("a dry run has subset %q, want %s", got, want)
			}
			return nil
		})
		show()
	}
}
