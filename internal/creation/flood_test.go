package creation_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/creation"
	pinadmit "github.com/limpet-io/limpet/internal/pin/admit"
	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// observed is the webhook as cmd/controller makes it, with the requests of its live reads.
func observed(t *testing.T) (*creation.Handler, *testenv.Traffic) {
	t.Helper()
	return observedAt(t, workloads.NewRegistry(), clock.RealClock{})
}

// observedAt is the same for some kinds, and a time.
func observedAt(t *testing.T, kinds *workloads.Registry, at clock.PassiveClock) (*creation.Handler, *testenv.Traffic) {
	t.Helper()
	cached := env.RunCache(t, cluster.CacheOptions(pincontroller.Needs()), func(c client.FieldIndexer) error {
		return cluster.AddIndexes(t.Context(), c, pincontroller.Needs())
	})
	c, traffic := env.Observe(t)
	live, proven := cluster.NewLiveReader(c, cluster.LimitUnproven), cluster.NewLiveReader(c, cluster.LimitProven)
	reader := &workloads.Reader{Registry: kinds, Cached: cached, Live: live, LiveProven: proven}
	pins := &pinadmit.Planner{Cached: cached, Live: live, LiveProven: proven, Workloads: reader, Sightings: &cluster.Sightings{Clock: at}, Clock: at}
	return &creation.Handler{Planners: []creation.Planner{pins}, MaxReservation: time.Hour, Clock: at}, traffic
}

// forged is a pod of a StatefulSet that does not exist.
func forged(ns, set string) testenv.Pod {
	owner := testenv.AStatefulSet(set, 1)
	owner.UID = types.UID("forged-" + set)
	return testenv.APod(set + "-0").In(ns).OwnedBy(owner.StatefulSet)
}

func createIn(t *testing.T, pod testenv.Pod, dryRun bool) admission.Request {
	t.Helper()
	req := request(t, pod, nil)
	req.Namespace, req.Operation, req.DryRun = pod.Namespace, admissionv1.Create, &dryRun
	return req
}

// A pod names its owner, whether there is one or not. However many pods of forged owners a
// tenant creates, the pods of other namespaces never wait for the reads.
func TestPodsOfForgedOwnersDelayNoOtherNamespace(t *testing.T) {
	const many, most = 100, 16
	webhook, traffic := observed(t)
	busy, quiet := env.Namespace(t), env.Namespace(t)
	release := traffic.Hold(t, "/namespaces/"+busy+"/")
	answers := make(chan admission.Response, many)
	for i := range many {
		req := createIn(t, forged(busy, fmt.Sprintf("web%d", i)), false)
		go func() { answers <- webhook.Handle(t.Context(), req) }()
	}
	for range many - most { // those for which there is no room
		if answer := <-answers; !answer.Allowed || len(answer.Warnings) != 1 {
			t.Errorf("answer %+v, want a pod without a plan", answer)
		}
	}
	retained := createIn(t, forged(busy, "retained").With(retainAnnotation, "10"), false)
	if answer := webhook.Handle(t.Context(), retained); answer.Allowed || answer.Result.Code != http.StatusServiceUnavailable {
		t.Errorf("answer %+v, want that a pod with a reservation is tried again", answer)
	}
	if answer := webhook.Handle(t.Context(), createIn(t, forged(quiet, "web"), false)); !answer.Allowed || len(answer.Warnings) > 0 {
		t.Errorf("answer %+v in another namespace", answer)
	}
	if n := traffic.Count("/namespaces/" + quiet + "/"); n != 1 {
		t.Errorf("%d reads in the other namespace, want one", n)
	}
	if n := traffic.Count("/namespaces/" + busy + "/"); n > most {
		t.Errorf("%d reads for %d forged owners, want at most %d", n, many, most)
	}
	release()
	for range most {
		<-answers
	}
}

// A client of the port of the webhooks can name any namespace. Its forged pods keep no place
// from pods of workloads that exist, of whatever kind.
func TestPodsOfForgedOwnersDelayNoExistingWorkload(t *testing.T) {
	serve(t)
	env.ServeKinds(t)
	ns := env.Namespace(t)
	target := workload.NewTarget(testenv.GameServers.GroupVersion().String(), testenv.GameServers.Kind, "game")
	testenv.Eventually(t, func() error { _, err := registry.Served(target); return err })
	game := ofKind(testenv.GameServers, ns, "game")
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), game) }) // a new kind is served a moment later
	env.Create(t, asking(ns, "kruise", testenv.KruiseSets))                             // no pod is recorded
	at := clocktesting.NewFakePassiveClock(time.Now())
	webhook, traffic := observedAt(t, registry, at)
	created := func(what string, owner metav1.Object, kind schema.GroupVersionKind) {
		t.Helper()
		pod := testenv.APod(owner.GetName()+"-0").In(ns).Of(owner, kind).With(retainAnnotation, "10")
		if answer := webhook.Handle(t.Context(), createIn(t, pod, false)); !answer.Allowed || len(answer.Warnings) > 0 {
			t.Errorf("%s: answer %+v", what, answer)
		}
	}
	created("before the flood", game, testenv.GameServers)
	flood(t, webhook, traffic, ns)
	created("a workload that was found", game, testenv.GameServers)
	at.SetTime(at.Now().Add(time.Minute))
	created("… that is read again", game, testenv.GameServers)
	created("a workload that a state has as its target", &metav1.ObjectMeta{Namespace: ns, Name: "kruise", UID: "u"}, testenv.KruiseSets)
}

// ofKind is a workload that asks for a state.
func ofKind(kind schema.GroupVersionKind, ns, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(ns)
	o.SetName(name)
	o.SetAnnotations(map[string]string{appsv1beta1.AnnotationAutoGenerate: "true", appsv1beta1.AnnotationPreferredTopology: hostname})
	return o
}

// flood takes all places of a namespace for pods of forged owners, until the test ends.
func flood(t *testing.T, webhook *creation.Handler, traffic *testenv.Traffic, ns string) {
	t.Helper()
	const many, most = 30, 16
	release := traffic.Hold(t, "/namespaces/"+ns+"/statefulsets/")
	answers := make(chan admission.Response, many)
	for i := range many {
		req := createIn(t, forged(ns, fmt.Sprintf("web%d", i)), false)
		go func() { answers <- webhook.Handle(t.Context(), req) }()
	}
	for range many - most {
		<-answers
	}
	t.Cleanup(func() {
		release()
		for range most {
			<-answers
		}
	})
}

// A dry run leaves nothing behind, so that any number of them could force reads.
func TestADryRunReadsNothingFromTheAPIServer(t *testing.T) {
	webhook, traffic := observed(t)
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState // no pod is recorded
	env.Create(t, set.StatefulSet, state)
	pods := []testenv.Pod{
		forged(ns, "none"), forged(ns, "retained").With(retainAnnotation, "10"),
		testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).With(retainAnnotation, "10"),
		testenv.APod("bare").In(ns).With(reservation.OwnerAnnotation, "db"),
		podOf(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "none-abc", UID: "forged"}}, "none-1", "db"),
		podOf(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-abc", UID: set.UID}}, "web-1", "db"),
	}
	for _, pod := range pods {
		if answer := webhook.Handle(t.Context(), createIn(t, pod, true)); !answer.Allowed || len(answer.Warnings) > 0 {
			t.Errorf("answer %+v to a dry run", answer)
		}
	}
	if n := traffic.Count(""); n > 0 {
		t.Errorf("%d requests for dry runs", n)
	}
}

// An owner that was just found missing is not read again.
func TestAForgedOwnerIsReadOnce(t *testing.T) {
	webhook, traffic := observed(t)
	ns := env.Namespace(t)
	for range 10 {
		if answer := webhook.Handle(t.Context(), createIn(t, forged(ns, "web"), false)); !answer.Allowed {
			t.Errorf("answer %+v", answer)
		}
	}
	long := forged(ns, "web")
	long.OwnerReferences[0].Name = string(make([]byte, 1<<16))
	if answer := webhook.Handle(t.Context(), createIn(t, long, false)); !answer.Allowed || len(answer.Warnings) > 0 {
		t.Errorf("answer %+v to a name that no object has", answer)
	}
	if n := traffic.Count("/statefulsets/"); n != 1 {
		t.Errorf("%d reads of one owner that does not exist, want one", n)
	}
}

// The first pods of many workloads may be created at once. None of them is refused.
func TestPodsOfManyWorkloadsAreAllPlanned(t *testing.T) {
	const many, atOnce = 40, 8
	ns := env.Namespace(t)
	var pods []testenv.Pod
	for i := range many {
		set := testenv.AStatefulSet(fmt.Sprintf("real%d", i), 1).In(ns).
			With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
		env.Create(t, set.StatefulSet)
		pods = append(pods, testenv.APod(set.Name+"-0").In(ns).OwnedBy(set.StatefulSet).With(retainAnnotation, "10"))
	}
	webhook, traffic := observed(t)
	if _, err := webhook.Planners[0].Plan(t.Context(), creation.Facts{Pod: pods[0].Pod, DryRun: true}); err != nil { // fills the cache
		t.Fatal(err)
	}
	release := traffic.Hold(t, "/namespaces/"+ns+"/")
	answers := make(chan admission.Response, many)
	for _, pod := range pods {
		req := createIn(t, pod, false)
		go func() { answers <- webhook.Handle(t.Context(), req) }()
	}
	testenv.Eventually(t, func() error {
		if n := traffic.Count("/persistentpodstates/"); n != atOnce {
			return fmt.Errorf("%d reads, want %d", n, atOnce)
		}
		return nil
	})
	release()
	for range many {
		if answer := <-answers; !answer.Allowed || len(answer.Warnings) > 0 {
			t.Errorf("answer %+v, want each pod planned", answer)
		}
	}
	if n := traffic.Count("/statefulsets/"); n > 0 {
		t.Errorf("%d reads of StatefulSets that the cache shows", n)
	}
}
