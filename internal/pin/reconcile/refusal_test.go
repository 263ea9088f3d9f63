package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// others is what there is of other kinds that are listed, and else one node that is well.
var others = map[string]any{
	"/nodes/n1":    corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
	"/leases/n1":   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
	"/pods":        metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
	"/replicasets": metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSetList"},
	"/jobs":        metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "JobList"},

	"/replicationcontrollers": metav1.TypeMeta{APIVersion: "v1", Kind: "ReplicationControllerList"},
	"/persistentpodstates/web": metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
	},
	"/persistentpodstates": metav1.TypeMeta{
		APIVersion: appsv1beta1.GroupVersion.String(), Kind: "PersistentPodStateList",
	},
}

// refusing is a client of an API server that answers every read with one object, and
// every write with a refusal: no real one refuses when it is told to. It returns the
// paths of the writes, too.
func refusing(t *testing.T, read runtime.Object, code int, reason metav1.StatusReason, more ...map[string]any) (client.Client, func() []string) {
	t.Helper()
	known := maps.Clone(others)
	for _, objects := range more {
		maps.Copy(known, objects)
	}
	writes := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := any(read)
		for end, none := range known {
			if strings.HasSuffix(r.URL.Path, end) {
				answer = none
			}
		}
		if r.Method != http.MethodGet {
			writes <- r.URL.Path
			answer = metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status:   metav1.StatusFailure, Reason: reason, Code: int32(code),
			}
		}
		if refusal, ok := answer.(metav1.Status); ok {
			w.WriteHeader(int(refusal.Code))
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Errorf("answer %s: %v", r.URL, err)
		}
	}))
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ReplicationController"), meta.RESTScopeNamespace)
	mapper.Add(appsv1beta1.GroupVersion.WithKind("PersistentPodState"), meta.RESTScopeNamespace)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), appsv1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return c, func() []string {
		close(writes)
		return slices.Collect(channel(writes))
	}
}

// channel is what there is in a channel that is closed.
func channel(c <-chan string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for s := range c {
			if !yield(s) {
				return
			}
		}
	}
}

func TestGateThatIsNotOpened(t *testing.T) {
	cases := map[string]struct {
		code      int
		reason    metav1.StatusReason
		wantAgain bool
		wantTold  bool // by an event, once
	}{
		"a conflict is tried again soon":       {http.StatusConflict, metav1.StatusReasonConflict, true, false},
		"a pod that is gone is over":           {http.StatusNotFound, metav1.StatusReasonNotFound, false, false},
		"a refusal is tried with delay":        {http.StatusForbidden, metav1.StatusReasonForbidden, true, true},
		"a webhook that is down is tried soon": {http.StatusInternalServerError, metav1.StatusReasonInternalError, true, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := gated("u", "1", pin.Gate)
			pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
			c, patches := refusing(t, pod, tc.code, tc.reason)
			elected := make(chan struct{})
			close(elected)
			told := events.NewFakeRecorder(10)
			n := cluster.RetryOnConflict[ctrl.Request](&controller.Nominator{Client: c, Clock: clock.RealClock{}, Elected: elected, Events: told})
			for range 2 {
				got, err := n.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
				if err != nil || (got.RequeueAfter > 0) != tc.wantAgain || got.RequeueAfter > time.Second {
					t.Errorf("again after %s, error %v; want again %t", got.RequeueAfter, err, tc.wantAgain)
				}
			}
			if n := len(patches()); n != 2 {
				t.Errorf("%d patches, want 2", n)
			}
			close(told.Events)
			said := slices.Collect(channel(told.Events))
			if (len(said) == 1) != tc.wantTold || len(said) > 1 || tc.wantTold && !strings.Contains(said[0], pin.ReasonGateNotOpened) {
				t.Errorf("events %q, want one that the gate was not opened: %t", said, tc.wantTold)
			}
		})
	}
}

// A gate that another admission controller keeps closed costs a few writes in a minute, and then two a minute.
func TestAGateThatIsRefusedAgainAndAgainIsTriedEverLater(t *testing.T) {
	for name, tc := range map[string]refusedOpening{
		"for good":                  {http.StatusForbidden, metav1.StatusReasonForbidden, []time.Duration{1, 1, 2, 4, 8, 16, 32, 60, 60}},
		"by a webhook that is down": {http.StatusInternalServerError, metav1.StatusReasonInternalError, []time.Duration{1, 1, 2, 4, 8, 10, 10, 10, 10}},
	} {
		t.Run(name, tc.try)
	}
}

// refusedOpening is how a gate is refused, and the seconds until each next try.
type refusedOpening struct {
	code   int
	reason metav1.StatusReason
	want   []time.Duration
}

func (tc refusedOpening) try(t *testing.T) {
	pod := gated("u", "1", pin.Gate)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	c, patches := refusing(t, pod, tc.code, tc.reason)
	elected, at := make(chan struct{}), clocktesting.NewFakePassiveClock(time.Now())
	close(elected)
	n := &controller.Nominator{Client: c, Clock: at, Elected: elected, Events: events.NewFakeRecorder(10)}
	var delays []time.Duration
	for range 9 {
		got, err := n.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
		if err != nil {
			t.Fatal(err)
		}
		delays = append(delays, got.RequeueAfter/time.Second)
		at.SetTime(at.Now().Add(got.RequeueAfter))
	}
	if !slices.Equal(delays, tc.want) {
		t.Errorf("seconds until the next try: %d, want %d", delays, tc.want)
	}
	if n := len(patches()); n != 9 {
		t.Errorf("%d patches, want one for each try", n)
	}
}

// A cache that stays behind, and an API server that does not know the kind any more, are
// asked ever less often.
func TestGenerationThatIsRefused(t *testing.T) {
	cases := map[string]struct {
		code    int
		reason  metav1.StatusReason
		wantErr bool // for the delay of the queue
	}{
		"an object that the cache does not show": {http.StatusConflict, metav1.StatusReasonAlreadyExists, false},
		"a conflict":                             {http.StatusConflict, metav1.StatusReasonConflict, false},
		"a kind that is not served any more":     {http.StatusNotFound, metav1.StatusReasonNotFound, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := testenv.AStatefulSet("web", 1).In("default").
				With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationRequiredTopology, corev1.LabelHostname).StatefulSet
			set.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}
			c, writes := refusing(t, set, tc.code, tc.reason, map[string]any{"/namespaces/default": corev1.Namespace{}})
			g := cluster.RetryOnConflict[controller.KindRequest](&controller.Generator{Client: c})
			var waited time.Duration
			const tries = 10
			for range tries {
				got, err := g.Reconcile(t.Context(), controller.KindRequest{GroupVersionKind: workloads.StatefulSets, ObjectKey: client.ObjectKeyFromObject(set)})
				if (err != nil) != tc.wantErr {
					t.Fatalf("error %v, want one: %t", err, tc.wantErr)
				}
				waited += got.RequeueAfter
			}
			if n := len(writes()); n != tries {
				t.Errorf("%d writes, want %d: it is tried each time", n, tries)
			}
			if !tc.wantErr && (waited < 5*time.Second || waited > time.Minute) {
				t.Errorf("%d tries within %s, want them ever further apart", tries, waited)
			}
		})
	}
}

func TestNominationThatIsRefused(t *testing.T) {
	cases := map[string]struct {
		code      int
		reason    metav1.StatusReason
		later     time.Duration // than when the pod was first seen
		wantAgain bool
		wantGate  bool // its opening is tried
	}{
		"a conflict is tried again before the gate is opened": {http.StatusConflict, metav1.StatusReasonConflict, time.Second, true, false},
		"though not forever":                       {http.StatusConflict, metav1.StatusReasonConflict, time.Minute, true, true},
		"a pod that is gone is over":               {http.StatusNotFound, metav1.StatusReasonNotFound, time.Second, false, false},
		"anything else does not keep the pod back": {http.StatusForbidden, metav1.StatusReasonForbidden, 0, true, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			c, patches, pod := refusingRecorded(t, now, tc.code, tc.reason)
			at := clocktesting.NewFakePassiveClock(now)
			n := nominatorOf(c, at)
			var got ctrl.Result
			var err error
			for _, later := range []time.Duration{0, tc.later} {
				at.SetTime(now.Add(later))
				got, err = cluster.RetryOnConflict[ctrl.Request](n).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
			}
			if err != nil || (got.RequeueAfter > 0) != tc.wantAgain || got.RequeueAfter > time.Second {
				t.Errorf("again after %s, error %v; want again %t", got.RequeueAfter, err, tc.wantAgain)
			}
			paths := patches()
			if len(paths) == 0 || !strings.HasSuffix(paths[0], "/status") || slices.ContainsFunc(paths, func(p string) bool { return !strings.HasSuffix(p, "/status") }) != tc.wantGate {
				t.Errorf("patches of %v, want the nomination, and the opening: %t", paths, tc.wantGate)
			}
		})
	}
}

// refusingRecorded is what refusing is, with a gated pod that has a recorded node.
func refusingRecorded(t *testing.T, now time.Time, code int, reason metav1.StatusReason) (client.Client, func() []string, *corev1.Pod) {
	t.Helper()
	pod := gated("u", "1", pin.Gate)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour)) // by a clock that is behind
	pod.Annotations = map[string]string{pin.AnnotationNode: "n1"}
	set := testenv.AStatefulSet("web", 1)
	set.TypeMeta, set.UID = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, "s"
	pod.OwnerReferences = testenv.APod("").OwnedBy(set.StatefulSet).OwnerReferences
	c, patches := refusing(t, pod, code, reason, map[string]any{
		"/statefulsets/web": set.StatefulSet,
		"/persistentpodstates": appsv1beta1.PersistentPodStateList{
			TypeMeta: metav1.TypeMeta{APIVersion: appsv1beta1.GroupVersion.String(), Kind: "PersistentPodStateList"},
			Items:    []appsv1beta1.PersistentPodState{*testenv.APersistentPodState("web").Recorded("web-0", "n1", nil).PersistentPodState},
		},
	})
	return c, patches, pod
}

// nominatorOf is one of a leader.
func nominatorOf(c client.Client, at *clocktesting.FakePassiveClock) *controller.Nominator {
	elected := make(chan struct{})
	close(elected)
	return &controller.Nominator{
		Client: c, Workloads: &workloads.Reader{Registry: workloads.NewRegistry(), Cached: c, Live: c}, Clock: at,
		Elected: elected, Events: events.NewFakeRecorder(10), Leases: &controller.LeaseMonitor{Live: c, Clock: at},
	}
}

// closedGates takes nominations, and refuses to open gates as a webhook does that is down.
type closedGates struct {
	client.Client

	works bool
	asked []string
}

func (c *closedGates) Status() client.SubResourceWriter { return &nominations{c.Client.Status(), c} }

func (c *closedGates) Patch(_ context.Context, _ client.Object, _ client.Patch, opts ...client.PatchOption) error {
	c.asked = append(c.asked, "open")
	if (&client.PatchOptions{}).ApplyOptions(opts).DryRun != nil {
		c.asked[len(c.asked)-1] = "dry run"
	}
	if c.works {
		return nil
	}
	return apierrors.NewInternalError(errors.New("failed calling webhook"))
}

// nominations writes down what is nominated.
type nominations struct {
	client.SubResourceWriter
	of *closedGates
}

func (n *nominations) Patch(_ context.Context, _ client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	data, err := patch.Data(nil)
	what := "nominate"
	if strings.Contains(string(data), `"nominatedNodeName":""`) {
		what = "withdraw"
	}
	n.of.asked = append(n.of.asked, what)
	return err
}

// A gate that a webhook keeps closed costs writes once. Later tries write nothing, until one would pass.
func TestAGateThatIsRefusedCostsNoNominationForEachTry(t *testing.T) {
	now := time.Now()
	reads, patches, pod := refusingRecorded(t, now, http.StatusForbidden, metav1.StatusReasonForbidden)
	c, at := &closedGates{Client: reads}, clocktesting.NewFakePassiveClock(now)
	n := nominatorOf(c, at)
	for i := range 4 {
		c.works = i == 3
		got, err := n.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
		if err != nil || (got.RequeueAfter > 0) == c.works {
			t.Fatalf("again after %s, %v", got.RequeueAfter, err)
		}
		at.SetTime(at.Now().Add(got.RequeueAfter))
	}
	if want := []string{"nominate", "open", "withdraw", "dry run", "dry run", "dry run", "nominate", "open"}; !slices.Equal(c.asked, want) {
		t.Errorf("asked to %v, want %v", c.asked, want)
	}
	if paths := patches(); len(paths) > 0 {
		t.Errorf("writes of %v beside", paths)
	}
}

// A pod whose release is refused, as by its budgets, does not keep the pods after it.
func TestAReleaseContinuesAfterARefusal(t *testing.T) {
	var waits []pin.Wait
	for _, name := range []string{"web-0", "web-1"} {
		pod := testenv.APod(name).Pod
		pod.UID, pod.ResourceVersion = "u", "1"
		waits = append(waits, pin.Wait{Pod: pod, Decision: pin.PlaceDecision{Verdict: pin.LetGo}})
	}
	c, writes := refusing(t, waits[0].Pod, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	err := controller.Release(t.Context(), c, waits)
	if err == nil || !strings.Contains(err.Error(), "web-0") || !strings.Contains(err.Error(), "web-1") {
		t.Errorf("error %v, want it to name both pods", err)
	}
	if paths := writes(); len(paths) != 2 {
		t.Errorf("deletions of %v, want one of each pod", paths)
	}
}
