package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/spread/placement"
	controller "github.com/limpet-io/limpet/internal/spread/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const (
	zone  = corev1.LabelTopologyZone
	match = appsv1beta1.AnnotationMatchedSpread
	home  = appsv1beta1.AnnotationHomeSubset
)

// namespaces are where kinds are named.
var namespaces = []string{"limpet-system", "kruise-system"}

// start runs the reconciler as cmd/controller does, with the rights of the controller.
func start(t *testing.T) *prometheus.Registry {
	t.Helper()
	return startAt(t, clock.RealClock{})
}

// startAt is start, with a clock of the reconciler.
func startAt(t *testing.T, now clock.PassiveClock) *prometheus.Registry {
	t.Helper()
	needs := []cluster.Needs{controller.Needs(), placement.Needs(), workloads.Needs(namespaces...), disruption.Needs()}
	mgr := env.NewManager(t, cluster.CacheOptions(needs...))
	if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs...); err != nil {
		t.Fatal(err)
	}
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		t.Fatal(err)
	}
	kinds := &workloads.Watcher{
		Registry: workloads.NewRegistry(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Discovery: served, Namespaces: namespaces,
		Events: mgr.GetEventRecorder("limpet-controller"), Clock: testenv.HastyClock{}, Elected: mgr.Elected(),
	}
	sizes := workloads.NewScales(mgr.GetClient(), mgr.GetAPIReader())
	sizes.Kinds = kinds.Registry
	registry := prometheus.NewRegistry()
	entries := books.New(books.Options{Client: mgr.GetClient(), Cached: mgr.GetCache(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}})
	judge := disruption.NewJudge(disruption.Options{
		Reader: disruption.NewReader(mgr.GetCache(), mgr.GetClient()), Books: entries, Live: mgr.GetAPIReader(),
		Clock: clock.RealClock{}, User: testenv.ControllerUser, Metrics: disruption.NewMetrics(registry),
	})
	tally := placement.New(clock.RealClock{})
	if err := tally.Follow(t.Context(), mgr.GetCache()); err != nil {
		t.Fatal(err)
	}
	r := &controller.Reconciler{
		Client: mgr.GetClient(), Live: newer{mgr.GetAPIReader()}, Clock: now, Events: mgr.GetEventRecorder("limpet-controller"),
		Sizes: sizes, Kinds: kinds, Tally: tally,
		Books: entries, Metrics: controller.NewMetrics(registry), Evictor: &evict.Evictor{Client: mgr.GetClient(), Ask: judge.Leave},
	}
	if err := errors.Join(r.SetupWithManager(mgr), kinds.SetupWithManager(mgr)); err != nil {
		t.Fatal(err)
	}
	env.Start(t, mgr)
	knows = mgr.GetClient()
	return registry
}

// gone names a pod that the API server no longer has, while the cache shows it still; "" for none.
var gone atomic.Value

// newer reads what the API server has.
type newer struct{ client.Reader }

func (n newer) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if key.Name == gone.Load() {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	return n.Reader.Get(ctx, key, into, opts...)
}

// knows is the cache of the reconciler that was started last.
var knows client.Reader

// app is a Deployment with one ReplicaSet.
type app struct {
	*appsv1.Deployment
	set *appsv1.ReplicaSet
}

func anApp(t *testing.T, replicas int32) *app {
	t.Helper()
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: testenv.APod("web").Spec}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
	env.Create(t, d)
	a := &app{Deployment: d}
	a.set = &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: "web-1",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: d.Spec.Selector, Template: template},
	}
	env.Create(t, a.set)
	return a
}

// pod makes a pod of the app; pairs are annotations.
func (a *app) pod(t *testing.T, name, node string, pairs ...string) *corev1.Pod {
	t.Helper()
	p := testenv.APod(name).Of(a.set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	p.Labels = map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "1"}
	for i := 0; i < len(pairs); i += 2 {
		p = p.With(pairs[i], pairs[i+1])
	}
	if node != "" {
		p = p.On(node).Ready()
	}
	env.Create(t, p.Pod)
	return p.Pod
}

func matched(subset string) string { return appsv1beta1.Match{Name: "ws", Subset: subset}.String() }

// spreadOf divides the app over zones, of which all but the last have a maximum.
func spreadOf(t *testing.T, a *app, maximum string, edit func(*appsv1beta1.WorkloadSpread), zones ...string) *appsv1beta1.WorkloadSpread {
	t.Helper()
	ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "ws"}}
	ws.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: a.Name}
	for i, in := range zones {
		subset := appsv1beta1.WorkloadSpreadSubset{Name: in, RequiredNodeSelector: &corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{in}}},
		}}
		if i < len(zones)-1 {
			subset.MaxReplicas = new(intstr.Parse(maximum))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, subset)
	}
	if edit != nil {
		edit(ws)
	}
	env.Create(t, ws)
	return ws
}

func node(t *testing.T, in string) string {
	t.Helper()
	n := testenv.ANode(env.Name("node")).Labelled(zone, in)
	env.Create(t, n.Node)
	return n.Name
}

// shows waits until the status of a spread is as wanted, as one text of its parts.
func shows(t *testing.T, ws *appsv1beta1.WorkloadSpread, want string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var now appsv1beta1.WorkloadSpread
		env.Read(t, client.ObjectKeyFromObject(ws), &now)
		got := ""
		for _, s := range now.Status.SubsetStatuses {
			got += fmt.Sprintf("%s:%d/%d", s.Name, s.Replicas, s.MissingReplicas)
			for _, c := range s.Conditions {
				got += "/" + c.Reason
			}
			got += " "
		}
		for _, c := range now.Status.Conditions {
			got += c.Reason
		}
		if got != want || now.Status.ObservedGeneration != now.Generation {
			return fmt.Errorf("status %q of generation %d of %d, want %q", got, now.Status.ObservedGeneration, now.Generation, want)
		}
		return nil
	})
}

// placed waits until a pod has the annotation with a subset.
func placed(t *testing.T, pod *corev1.Pod, subset string) *corev1.Pod {
	t.Helper()
	now := &corev1.Pod{}
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(pod), now)
		if got := now.Annotations[match]; got != matched(subset) {
			return fmt.Errorf("pod %s has %q", pod.Name, got)
		}
		return nil
	})
	return now
}
