package creation_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/limpet-io/limpet/internal/creation"
	pinadmit "github.com/limpet-io/limpet/internal/pin/admit"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/review"
	webhookserver "github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	rolloutadmit "github.com/limpet-io/limpet/internal/rollout/admit"
	spreadadmit "github.com/limpet-io/limpet/internal/spread/admit"
	"github.com/limpet-io/limpet/internal/spread/placement"
	spreadvalidate "github.com/limpet-io/limpet/internal/spread/validate"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// replicas are the webhooks of two replicas, each with a cache, a tally and books of its own. The
// API server asks them in turn.
type replicas struct {
	handlers []http.Handler
	asked    [2]atomic.Int64
	next     atomic.Int64
	down     atomic.Bool
}

func (r *replicas) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.down.Load() {
		panic(http.ErrAbortHandler)
	}
	n := r.next.Add(1) % 2
	r.asked[n].Add(1)
	r.handlers[n].ServeHTTP(w, req)
}

// ofSpreads answers for the pods of namespaces with spreads.
var ofSpreads = &replicas{}

// serveSpreads makes the webhooks of spreads, beside other planners.
func serveSpreads(t testing.TB, mgr ctrl.Manager, needs []cluster.Needs, reader *workloads.Reader, others ...creation.Planner) (map[string]http.Handler, error) {
	t.Helper()
	options := cluster.CacheOptions(needs...)
	options.Scheme, options.Mapper = mgr.GetScheme(), mgr.GetRESTMapper()
	second, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, err
	}
	if err := cluster.AddIndexes(t.Context(), second, needs...); err != nil {
		return nil, err
	}
	if err := mgr.Add(second); err != nil {
		return nil, err
	}
	var creations []*creation.Handler
	replicaCaches = []cache.Cache{mgr.GetCache(), second}
	for _, c := range replicaCaches {
		spreads, err := newSpread(t.Context(), mgr, c, reader)
		if err != nil {
			return nil, err
		}
		creation := &creation.Handler{Planners: append(slices.Clone(others), spreads), MaxReservation: time.Hour, Clock: clock.RealClock{}}
		labelled := *creation
		labelled.Labelled = true
		creations = append(creations, creation)
		ofSpreads.handlers = append(ofSpreads.handlers, labelled.Webhook())
	}
	live := cluster.NewLiveReader(mgr.GetAPIReader(), cluster.LimitUnproven)
	validator := &spreadvalidate.WorkloadSpread{
		Live: live, Cached: mgr.GetCache(), Namespaces: review.NewNamespaces(live, mgr.GetClient(), clock.RealClock{}),
	}
	return map[string]http.Handler{
		creation.Path:                     creations[0].Webhook(),
		creation.SpreadPath:               ofSpreads,
		rolloutadmit.PartitionPath:        &webhook.Admission{Handler: rolloutadmit.Partition{}},
		spreadvalidate.WorkloadSpreadPath: lenient(admission.WithValidator(env.Scheme, validator)),
		webhookserver.ConversionPath:      conversion.NewWebhookHandler(env.Scheme, mgr.GetConverterRegistry()),
	}, nil
}

// replicaCaches are those of the two replicas.
var replicaCaches []cache.Cache

// filled waits until caches have what a decision about a subset reads. A replica of a cluster is not Ready before.
func filled[C client.Reader](t testing.TB, caches ...C) {
	t.Helper()
	for _, c := range caches {
		for _, o := range []client.Object{&corev1.Namespace{}, &limpetv1alpha1.DisruptionBook{}, &appsv1beta1.WorkloadSpread{}} {
			testenv.Eventually(t, func() error {
				return client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "none"}, o))
			})
		}
	}
}

// unjudged makes the API server store any spread, as one of OpenKruise that was there before.
var unjudged atomic.Bool

// lenient allows everything while objects are stored unjudged.
func lenient(judge http.Handler) http.Handler {
	allow := &webhook.Admission{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if unjudged.Load() {
			allow.ServeHTTP(w, req)
			return
		}
		judge.ServeHTTP(w, req)
	})
}

// slowBooks makes the API server answer no write of a book.
var slowBooks atomic.Bool

// unreadSpreads makes each read of spreads past the cache fail.
var unreadSpreads atomic.Bool

var errUnread = errors.New("the API server reads no spreads")

type slowly struct{ http.RoundTripper }

func (s slowly) RoundTrip(req *http.Request) (*http.Response, error) {
	if unreadSpreads.Load() && req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/workloadspreads") {
		return nil, errUnread
	}
	if slowBooks.Load() && req.Method == http.MethodPut && strings.Contains(req.URL.Path, "/disruptionbooks/") {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return s.RoundTripper.RoundTrip(req)
}

// synced waits until a planner has counted the pods of its cache. A replica is not Ready before.
func synced(t testing.TB, planner *spreadadmit.Planner) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if !planner.Tally.Synced() {
			return errors.New("the tally is not complete")
		}
		return nil
	})
}

// newSpread makes the planner of one replica.
func newSpread(ctx context.Context, mgr ctrl.Manager, c cache.Cache, reader *workloads.Reader) (*spreadadmit.Planner, error) {
	unlimited := rest.CopyConfig(mgr.GetConfig())
	unlimited.QPS = -1
	unlimited.Wrap(func(next http.RoundTripper) http.RoundTripper { return slowly{next} })
	live, err := client.New(unlimited, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, err
	}
	tally := placement.New(clock.RealClock{})
	if err := tally.Follow(ctx, c); err != nil {
		return nil, err
	}
	sizes := workloads.NewScales(live, live)
	sizes.Kinds = reader.Registry
	return &spreadadmit.Planner{
		Cached: c, Live: cluster.NewLiveReader(live, cluster.LimitUnproven), LiveProven: cluster.NewLiveReader(live, cluster.LimitProven),
		Workloads: reader, Sizes: sizes, Tally: tally,
		Books: books.New(books.Options{Client: live, Cached: c, Live: live, Clock: clock.RealClock{}}),
		Clock: clock.RealClock{}, Events: mgr.GetEventRecorder("limpet-controller"), Metrics: spreadMetrics(),
		Recorded: recordedIn(c),
	}, nil
}

// recordedIn returns the recorded nodes that a cache shows.
func recordedIn(c client.Reader) func(context.Context, string, workload.Target) (map[string]string, error) {
	return func(ctx context.Context, namespace string, owner workload.Target) (map[string]string, error) {
		return pinadmit.Recorded(ctx, c, namespace, owner)
	}
}

// decisions has the metrics of all replicas.
var decisions = prometheus.NewRegistry()

// spreadMetrics are the metrics that all replicas share.
var spreadMetrics = sync.OnceValue(func() *spreadadmit.Metrics { return spreadadmit.NewMetrics(decisions) })

// decided is how many pods were counted for a reason.
func decided(t testing.TB, reason string) float64 {
	t.Helper()
	families, err := decisions.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if labels := m.GetLabel(); len(labels) == 1 && labels[0].GetName() == "reason" && labels[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("limpet_spread_decisions_total has no reason %s", reason)
	return 0
}

// countedOnce fails unless a reason was counted once more than before.
func countedOnce(t testing.TB, reason string, before float64) {
	t.Helper()
	if n := decided(t, reason) - before; n != 1 {
		t.Errorf("%s was counted %v times, want once", reason, n)
	}
}

// aSpread is a spread of a target over subsets. A subset is "name" or "name=max", and has the
// nodes of the zone of its name.
func aSpread(ns, name, apiVersion, kind, target string, subsets ...string) *appsv1beta1.WorkloadSpread {
	s := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	s.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: apiVersion, Kind: kind, Name: target}
	for _, text := range subsets {
		zone, limit, limited := strings.Cut(text, "=")
		subset := appsv1beta1.WorkloadSpreadSubset{Name: zone, RequiredNodeSelector: &corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}
		if limited {
			subset.MaxReplicas = new(intstr.Parse(limit))
		}
		s.Spec.Subsets = append(s.Spec.Subsets, subset)
	}
	return s
}

// aDeployment makes a Deployment and its ReplicaSet, as far as a spread sees them.
func aDeployment(t testing.TB, ns string, replicas int32) (*appsv1.Deployment, *appsv1.ReplicaSet) {
	t.Helper()
	set := testenv.AStatefulSet("web", replicas).In(ns)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: set.Spec.Selector, Template: set.Spec.Template},
	}
	env.Create(t, d)
	return d, aReplicaSet(t, d, "web-1")
}

func aReplicaSet(t testing.TB, d *appsv1.Deployment, name string) *appsv1.ReplicaSet {
	t.Helper()
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment")),
		}},
		Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template},
	}
	env.Create(t, rs)
	return rs
}

var replicaSets = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// generated is a pod of a workload whose name the API server makes.
func generated(rs *appsv1.ReplicaSet) *corev1.Pod {
	pod := testenv.APod("").Of(rs, replicaSets).Pod
	pod.GenerateName, pod.Labels = rs.Name+"-", rs.Spec.Template.Labels
	return pod
}

// sent waits until the API server sends the pods of a namespace to the webhook of spreads, and both replicas know the label of
// the namespace, without which it is closed for them, and what else tests make before.
func sent(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	testenv.Eventually(t, func() error {
		before := ofSpreads.next.Load()
		if err := env.Client.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
			return err
		}
		if ofSpreads.next.Load() == before {
			return fmt.Errorf("no webhook is asked about pods of namespace %s", pod.Namespace)
		}
		return nil
	})
	for _, c := range replicaCaches {
		env.Known(t, c, &corev1.NamespaceList{}, &corev1.NodeList{}, &appsv1.StatefulSetList{}, &appsv1beta1.PersistentPodStateList{})
	}
}

// subsetOf is the subset of a pod that was created.
func subsetOf(pod *corev1.Pod) string {
	match, _ := appsv1beta1.ParseMatch(pod.Annotations[appsv1beta1.AnnotationMatchedSpread])
	return match.Subset
}

// placed creates pods one after the other, and compares their subsets.
func placed(t *testing.T, want string, pods ...*corev1.Pod) []*corev1.Pod {
	t.Helper()
	var got []string
	for _, pod := range pods {
		admitted(t, pod)
		got = append(got, subsetOf(pod))
	}
	if text := strings.Join(got, " "); text != want {
		t.Errorf("subsets %s, want %s", text, want)
	}
	return pods
}

// foreseen waits until both replicas would give a pod this subset: a cache shows a moment later what
// a test changed.
func foreseen(t testing.TB, want string, pod *corev1.Pod) {
	t.Helper()
	inARow := 0
	testenv.Eventually(t, func() error {
		tried := pod.DeepCopy()
		if err := env.Client.Create(t.Context(), tried, client.DryRunAll); err != nil {
			return err
		}
		if inARow++; subsetOf(tried) != want {
			inARow = 0
		}
		if inARow < 4 {
			return fmt.Errorf("%d dry runs in a row say subset %s, the last one %q", inARow, want, subsetOf(tried))
		}
		return nil
	})
}

// some makes n pods of a ReplicaSet.
func some(rs *appsv1.ReplicaSet, n int) (pods []*corev1.Pod) {
	for range n {
		pods = append(pods, generated(rs))
	}
	return pods
}

// requires reports whether a pod requires a zone.
func requires(pod *corev1.Pod, zone string) error {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, r := range term.MatchExpressions {
				if r.Key == corev1.LabelTopologyZone && slices.Equal(r.Values, []string{zone}) {
					return nil
				}
			}
		}
	}
	return fmt.Errorf("pod %s does not require zone %s: %+v", pod.Name, zone, pod.Spec.Affinity)
}

// closedNamespace makes a namespace whose pods wait for their subsets, as the Labeler closes it.
func closedNamespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{}
	env.Read(t, client.ObjectKey{Name: env.Namespace(t)}, ns)
	env.Change(t, ns, func() { ns.Labels[appsv1beta1.LabelSpreads] = "closed" })
	return ns.Name
}
