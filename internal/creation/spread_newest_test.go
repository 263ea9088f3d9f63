package creation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/creation"
	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	spreadadmit "github.com/limpet-io/limpet/internal/spread/admit"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// late is the webhook of a replica whose cache never shows the spreads with unseenLabel, and its
// reads past the cache.
func late(t *testing.T) (*creation.Handler, *testenv.Traffic) {
	t.Helper()
	needs := []cluster.Needs{pincontroller.Needs(), workloads.Needs(namespaces...), spreadadmit.Needs()}
	options := cluster.CacheOptions(needs...)
	for object, by := range options.ByObject {
		if _, ok := object.(*appsv1beta1.WorkloadSpread); ok {
			by.Label = not(t, unseenLabel)
			options.ByObject[object] = by
		}
	}
	c := env.RunCache(t, options, func(c client.FieldIndexer) error { return cluster.AddIndexes(t.Context(), c, needs...) })
	filled(t, c)
	reader := &workloads.Reader{Registry: registry, Cached: c, Live: serving.GetAPIReader(), Namespaces: namespaces}
	planner, err := newSpread(t.Context(), serving, c.(cache.Cache), reader)
	if err != nil {
		t.Fatal(err)
	}
	synced(t, planner)
	observed, traffic := env.Observe(t)
	planner.LiveProven = cluster.NewLiveReader(observed, cluster.LimitLabelled)
	return &creation.Handler{Planners: []creation.Planner{planner}, MaxReservation: time.Hour, Clock: clock.RealClock{}, Labelled: true}, traffic
}

// chosen is the subset that an answer gives a pod.
func chosen(t *testing.T, answer admission.Response) string {
	t.Helper()
	text, err := json.Marshal(answer.Patches)
	if err != nil || !answer.Allowed {
		t.Fatalf("answer %+v, %v", answer, err)
	}
	_, after, _ := strings.Cut(string(text), `\"subset\":\"`)
	subset, _, _ := strings.Cut(after, `\"`)
	return subset
}

// hidden is a spread that the cache of late does not show.
func hidden(s *appsv1beta1.WorkloadSpread) *appsv1beta1.WorkloadSpread {
	s.Labels = map[string]string{unseenLabel: "yes"}
	return s
}

// A spread that was just created beside others has its pods from the first one, however far the
// cache is behind. A spread that is being deleted has none.
func TestNoPodIsFasterThanASpreadBesideAnother(t *testing.T) {
	env.Since(t, 31, "selectable fields of CRDs")
	serve(t)
	ns := closedNamespace(t)
	_, rs := aDeployment(t, ns, 2)
	db, old := testenv.AStatefulSet("db", 2).In(ns).StatefulSet, testenv.AStatefulSet("old", 2).In(ns).StatefulSet
	ending := aSpread(ns, "ending", "apps/v1", "StatefulSet", "old", "x")
	ending.Finalizers = []string{"example.com/waits"}
	env.Create(t, db, old, ending,
		aSpread(ns, "other", "apps/v1", "Deployment", "other", "x"), aSpread(ns, "filtered", "apps/v1", "StatefulSet", "web", "x"),
		hidden(aSpread(ns, "db", "apps/v1", "StatefulSet", "db", "a")), hidden(aSpread(ns, "web", "apps/v1", "Deployment", "web", "b")))
	if err := env.Client.Delete(t.Context(), ending); err != nil {
		t.Fatal(err)
	}
	defer env.Patch(t, ending, `{"metadata":{"finalizers":null}}`)
	webhook, traffic := late(t)
	gone := testenv.APod("old-0").In(ns).OwnedBy(old)
	if got := chosen(t, webhook.Handle(t.Context(), createIn(t, gone, false))); got != "" {
		t.Errorf("a spread that is being deleted gives subset %q", got)
	}
	env.Create(t, hidden(aSpread(ns, "old", "apps/v1", "StatefulSet", "old", "c")))
	before := traffic.Count("/workloadspreads")
	for want, pod := range map[string]testenv.Pod{
		"a": testenv.APod("db-0").In(ns).OwnedBy(db), "b": {Pod: generated(rs)}, "c": gone,
	} {
		if got := chosen(t, webhook.Handle(t.Context(), createIn(t, pod, true))); got != "" {
			t.Errorf("a dry run of pod %s has subset %q", pod.Name, got)
		}
		if n := traffic.Count("/workloadspreads"); n != before {
			t.Errorf("%d reads for a dry run", n-before)
		}
		if got := chosen(t, webhook.Handle(t.Context(), createIn(t, pod, false))); got != want {
			t.Errorf("pod %s%s has subset %q, want %q", pod.GenerateName, pod.Name, got, want)
		}
		before = traffic.Count("/workloadspreads")
	}
}

// A pod of a spread in the cache costs no read. Pods without a spread share their reads.
func TestPodsWithoutASpreadShareTheirReads(t *testing.T) {
	const many = 200
	serve(t)
	ns, quiet := env.Namespace(t), env.Namespace(t)
	_, rs := aDeployment(t, ns, many)
	db := testenv.AStatefulSet("db", 2).In(ns).StatefulSet
	env.Create(t, db, aSpread(ns, "db", "apps/v1", "StatefulSet", "db", "a"), aSpread(quiet, "db", "apps/v1", "StatefulSet", "db", "a"))
	webhook, traffic := late(t)
	if got := chosen(t, webhook.Handle(t.Context(), createIn(t, testenv.APod("db-0").In(ns).OwnedBy(db), false))); got != "a" || traffic.Count("/workloadspreads") > 0 {
		t.Errorf("subset %q after %d reads", got, traffic.Count("/workloadspreads"))
	}
	release := traffic.Hold(t, "/namespaces/"+ns+"/")
	answers := make(chan admission.Response, many)
	for range many {
		req := createIn(t, testenv.Pod{Pod: generated(rs)}, false)
		go func() {
			answer := webhook.Handle(t.Context(), req)
			for ; !answer.Allowed && t.Context().Err() == nil; answer = webhook.Handle(t.Context(), req) { // the owner tries again
			}
			answers <- answer
		}()
	}
	readsAtOnce(t, traffic, ns, 0)
	release()
	for range many {
		if answer := <-answers; !answer.Allowed || len(answer.Warnings) > 0 {
			t.Errorf("answer %+v", answer)
		}
	}
	if n := traffic.Count("/namespaces/" + ns + "/"); n > many/2 { // of two names
		t.Errorf("%d reads for %d pods of one Deployment, want few", n, many)
	}
}

// readsAtOnce waits until as many reads of a namespace are held up as may be at a time.
func readsAtOnce(t *testing.T, traffic *testenv.Traffic, ns string, before int) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if n := traffic.Count("/namespaces/"+ns+"/") - before; n != cluster.LimitLabelled.Each {
			return fmt.Errorf("%d reads at a time, want %d", n, cluster.LimitLabelled.Each)
		}
		return nil
	})
}

// A tenant invents owners while the API server is slow. Few of the pods have a place at the webhook, the others are
// answered at once, and the pods of another namespace do not wait.
func TestPodsOfInventedOwnersHoldFewPlaces(t *testing.T) {
	const many, places = 200, 16
	serve(t)
	ns, quiet := closedNamespace(t), closedNamespace(t)
	env.Create(t, aSpread(ns, "db", "apps/v1", "StatefulSet", "db", "a"), aSpread(quiet, "db", "apps/v1", "StatefulSet", "db", "a"))
	webhook, traffic := late(t)
	ask := func(ns, owner string) admission.Response {
		set := testenv.AStatefulSet(owner, 1).In(ns).StatefulSet
		set.UID = types.UID(owner)
		return webhook.Handle(t.Context(), createIn(t, testenv.APod(owner+"-0").In(ns).OwnedBy(set), false))
	}
	release := traffic.Hold(t, "/namespaces/"+ns+"/")
	answers := make(chan admission.Response, many)
	for i := range many {
		go func() { answers <- ask(ns, fmt.Sprint("forged-", i)) }()
	}
	crowded := 0
	for range many - places {
		if answer := <-answers; !answer.Allowed && strings.Contains(answer.Result.Message, fair.ErrCrowded.Error()) {
			crowded++
		}
	}
	if crowded < many/2 { // the first reads may end meanwhile, and others take their places
		t.Errorf("%d pods were answered at once, want most of %d", crowded, many-places)
	}
	if got := chosen(t, ask(quiet, "none")); got != "" {
		t.Errorf("subset %q in another namespace", got)
	}
	release()
	for range places {
		<-answers
	}
}

// A read past the cache that fails refuses no pod of an open namespace, whether or not the pod keeps its address, and
// takes no more than half of the time of the request.
func TestALookForANewSpreadRefusesNoPod(t *testing.T) {
	serve(t)
	open, closed := env.Namespace(t), closedNamespace(t)
	opened := aSpread(open, "other", "apps/v1", "StatefulSet", "other", "a")
	opened.Annotations = map[string]string{appsv1beta1.AnnotationSpreadFailure: appsv1beta1.SpreadOpen}
	env.Create(t, opened, aSpread(closed, "other", "apps/v1", "StatefulSet", "other", "a"))
	ofSpreads, traffic := late(t)
	ofRetained := *ofSpreads
	ofRetained.Labelled = false
	traffic.Hold(t, "/workloadspreads")
	ask := func(webhook *creation.Handler, ns string) admission.Response {
		db := testenv.AStatefulSet("db", 2).In(ns).StatefulSet
		db.UID = "db"
		req := createIn(t, testenv.APod("db-0").In(ns).OwnedBy(db).With(retainAnnotation, "10"), false)
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond) // of these, 2.5 s are for the way of the answer
		defer cancel()
		answer := webhook.Handle(ctx, req)
		if ctx.Err() != nil {
			t.Error("the read used up the time of the request")
		}
		return answer
	}
	for name, webhook := range map[string]*creation.Handler{"of spreads": ofSpreads, "of retained pods": &ofRetained} {
		answer := ask(webhook, open)
		if got := chosen(t, answer); got != "" || len(answer.Warnings) != 1 || !strings.Contains(answer.Warnings[0], "without a subset") {
			t.Errorf("the webhook %s gives subset %q with warnings %q", name, got, answer.Warnings)
		}
		if answer := ask(webhook, closed); answer.Allowed {
			t.Errorf("the webhook %s allows a pod of a closed namespace: %+v", name, answer)
		}
	}
}

// A tenant who hides a spread behind many spreads of other kinds and the same name has its pods
// refused, while the namespace is closed.
func TestASpreadCannotBeHidden(t *testing.T) {
	env.Since(t, 31, "selectable fields of CRDs")
	serve(t)
	ns := closedNamespace(t)
	db := testenv.AStatefulSet("db", 2).In(ns).StatefulSet
	env.Create(t, db, aSpread(ns, "other", "apps/v1", "StatefulSet", "other", "a"))
	for i := range 9 {
		env.Create(t, hidden(aSpread(ns, fmt.Sprint("s", i), "example.com/v1", fmt.Sprint("Kind", i), "db", "a")))
	}
	webhook, _ := late(t)
	answer := webhook.Handle(t.Context(), createIn(t, testenv.APod("db-0").In(ns).OwnedBy(db), false))
	if answer.Allowed || !strings.Contains(answer.Result.Message, cluster.ErrManySpreads.Error()) {
		t.Errorf("answer %+v", answer)
	}
}
