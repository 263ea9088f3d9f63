package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/budget/guard"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	platform "github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, limpetv1alpha1.AddToScheme, policyv1beta1.AddToScheme, apiextensionsv1.AddToScheme))
}

// karpenter is a program that ends nodes.
const karpenter = "system:serviceaccount:karpenter:karpenter"

// serving is the manager whose guard the API server asks; nil before the first test that needs
// it.
var serving ctrl.Manager

// needs are what a guard reads from its caches.
func needs() []cluster.Needs {
	return []cluster.Needs{disruption.Needs(), books.Needs(), workloads.Needs("limpet-system")}
}

// registry tells which kinds of workload the cache of the guard holds.
var registry = workloads.NewRegistry()

// watch keeps the registry up to date.
func watch(mgr ctrl.Manager) error {
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	watcher := &workloads.Watcher{
		Registry: registry, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Discovery: served, Namespaces: []string{"limpet-system"},
		Events: mgr.GetEventRecorder("limpet-controller"), Clock: testenv.HastyClock{},
	}
	return watcher.SetupWithManager(mgr)
}

// serve has the API server ask the guard about pods, as deploy/controller says.
func serve(t *testing.T) {
	t.Helper()
	if serving != nil {
		return
	}
	serving = env.RunWebhooks(t, cluster.CacheOptions(needs()...), func(mgr ctrl.Manager) (map[string]http.Handler, error) {
		if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs()...); err != nil {
			return nil, err
		}
		if err := errors.Join(cluster.HoldAll(t.Context(), mgr.GetCache(), needs()...), watch(mgr)); err != nil {
			return nil, err
		}
		return map[string]http.Handler{disruption.GuardPath: &webhook.Admission{Handler: handlerOf(mgr, mgr.GetAPIReader())}}, nil
	})
	serving.GetCache().WaitForCacheSync(t.Context())
	testenv.Eventually(t, func() error { // the API server takes a moment to know the webhooks
		err := evictAs(t.Context(), env.Client, testenv.APod(disruption.ProbeName).In(guarded(t)).Pod, metav1.DryRunAll)
		if !hasCause(err, disruption.CauseProbe) {
			return fmt.Errorf("a probe is answered with %w", err)
		}
		return nil
	})
}

// handlerOf is the guard as the controller makes it, with a client that reads past the cache.
func handlerOf(mgr ctrl.Manager, live client.Reader) *guard.Handler {
	reader := disruption.NewReader(mgr.GetCache(), mgr.GetClient())
	reader.Kinds = registry
	judge := disruption.NewJudge(disruption.Options{
		Reader: reader,
		Books:  books.New(books.Options{Client: mgr.GetClient(), Cached: mgr.GetCache(), Live: live, Clock: clock.RealClock{}}),
		Live:   live, Access: mgr.GetClient(), Clock: clock.RealClock{}, MaxReservation: time.Hour, User: testenv.ControllerUser, NodeEnders: []string{karpenter},
	})
	return &guard.Handler{Judge: judge.Judge, Live: live, Status: mgr.GetClient().Status(), Clock: &ahead}
}

// ahead is the clock of the guard for pods that are out of service. Tests move it.
var ahead aheadClock

// aheadClock is ahead of the clock of the machine.
type aheadClock struct{ by atomic.Int64 }

func (c *aheadClock) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

func (c *aheadClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// guarded makes a namespace from which requests are sent to the guard.
func guarded(t *testing.T) string {
	t.Helper()
	return env.Namespace(t, policyv1beta1.LabelBudgets, policyv1beta1.LabelBudgetsOpen)
}

func label(t *testing.T, namespace, value string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	env.Patch(t, ns, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, policyv1beta1.LabelBudgets, value))
}

// aBudget is a budget of the pods with the label app.
func aBudget(ns, name, app string, most intstr.IntOrString) *policyv1beta1.PodUnavailableBudget {
	return &policyv1beta1.PodUnavailableBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: policyv1beta1.PodUnavailableBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, MaxUnavailable: &most,
		},
	}
}

// aPod is a Ready pod of a StatefulSet.
func aPod(set testenv.StatefulSet, ordinal int) *corev1.Pod {
	pod := testenv.APod(fmt.Sprintf("%s-%d", set.Name, ordinal)).In(set.Namespace).On("n1").Ready().OwnedBy(set.StatefulSet).Pod
	pod.Labels = map[string]string{"app": set.Name}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	return pod
}

// create creates objects. They stay when the test ends, because the guard might refuse their
// removal.
func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		want := o.DeepCopyObject().(client.Object)
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
		if pod, ok := o.(*corev1.Pod); ok {
			pod.Status = want.(*corev1.Pod).Status
			if err := env.Client.Status().Update(t.Context(), pod); err != nil {
				t.Fatalf("update status of pod %s: %v", o.GetName(), err)
			}
		}
	}
}

// put creates objects, and waits until the guard's caches have them.
func put(t *testing.T, objects ...client.Object) {
	t.Helper()
	serve(t)
	create(t, objects...)
	for _, o := range objects {
		known(t, serving.GetCache(), o)
	}
}

// known waits until a cache has an object in this version, or a later one; of a pod also the StatefulSet, without which the
// pod counts for nothing.
func known(t *testing.T, cached client.Reader, o client.Object) {
	t.Helper()
	got := o.DeepCopyObject().(client.Object)
	testenv.Eventually(t, func() error {
		if err := cached.Get(t.Context(), client.ObjectKeyFromObject(o), got); err != nil {
			return err
		}
		if cluster.Behind(got.GetResourceVersion(), o.GetResourceVersion()) {
			return fmt.Errorf("the cache has %T %s of an older version", o, o.GetName())
		}
		return nil
	})
	if _, pod := o.(*corev1.Pod); pod {
		env.Known(t, cached, &appsv1.StatefulSetList{})
	}
}

// web creates a budget, and then a StatefulSet with Ready pods.
func web(t *testing.T, ns string, pods int, most intstr.IntOrString) (*policyv1beta1.PodUnavailableBudget, []*corev1.Pod) {
	t.Helper()
	pub := aBudget(ns, "web", "web", most)
	put(t, pub)
	_, all := podsOf(t, ns, pods)
	return pub, all
}

// podsOf creates a StatefulSet with Ready pods.
func podsOf(t *testing.T, ns string, pods int) (testenv.StatefulSet, []*corev1.Pod) {
	t.Helper()
	set := testenv.AStatefulSet("web", int32(pods)).In(ns)
	put(t, set.StatefulSet)
	var all []*corev1.Pod
	for i := range pods {
		all = append(all, aPod(set, i))
		put(t, all[i])
	}
	return set, all
}

// deployed creates a Deployment with a ReplicaSet and its Ready pods.
func deployed(t *testing.T, ns string, pods int) []*corev1.Pod {
	t.Helper()
	template := testenv.AStatefulSet("web", int32(pods)).In(ns)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(pods)), Selector: template.Spec.Selector, Template: template.Spec.Template,
	}}
	put(t, deployment)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-1"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(pods)), Selector: template.Spec.Selector, Template: template.Spec.Template,
	}}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	put(t, set)
	var all []*corev1.Pod
	for i := range pods {
		pod := aPod(template, i)
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		put(t, pod)
		all = append(all, pod)
	}
	return all
}

// inTime asks again while a busy machine has no time to judge: the guard says so, or the API server has no answer.
func inTime(ctx context.Context, ask func() error) (err error) {
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		err = ask()
		return !hasCause(err, platform.CauseUndecided) && !apierrors.IsInternalError(err) && !apierrors.IsTimeout(err), nil
	})
	return err
}

// evictAs evicts a pod in the way of kubectl drain: the dry run is said in the body.
func evictAs(ctx context.Context, c client.Client, pod *corev1.Pod, dryRun ...string) error {
	e := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun}}
	return inTime(ctx, func() error { return c.SubResource("eviction").Create(ctx, pod.DeepCopy(), e.DeepCopy()) })
}

func deleteAs(ctx context.Context, c client.Client, pod *corev1.Pod) error {
	return inTime(ctx, func() error { return c.Delete(ctx, pod.DeepCopy()) })
}

// as is a client with every right, in the name of another user.
func as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:masters")}
	return env.As(t, config)
}

// kubelet writes the status of a pod as its kubelet does, which the API server asks no guard about.
func kubelet(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := as(t, "system:node:n1", "system:nodes").Status().Update(t.Context(), pod); err != nil {
		t.Fatalf("update status of pod %s: %v", pod.Name, err)
	}
}

func hasCause(err error, cause metav1.CauseType) bool {
	_, ok := apierrors.StatusCause(err, cause)
	return ok
}

// refusedBy fails unless an error is the refusal of these budgets, in the way that drains and
// autoscalers understand.
func refusedBy(t *testing.T, err error, budgets ...string) {
	t.Helper()
	var status apierrors.APIStatus
	if !apierrors.IsTooManyRequests(err) || !errors.As(err, &status) {
		t.Fatalf("answer %v, want 429", err)
	}
	s := status.Status()
	if len(budgets) == 0 && s.Details == nil {
		return
	}
	if s.Details == nil || s.Details.RetryAfterSeconds != 0 {
		t.Errorf("details %+v, want no time to wait", s.Details)
		return
	}
	var got int
	for _, cause := range s.Details.Causes {
		if cause.Type == policyv1.DisruptionBudgetCause {
			got++
		}
	}
	if got != len(budgets) {
		t.Errorf("causes %+v, want one for each of %v", s.Details.Causes, budgets)
	}
}

// booksOf are the books of a namespace.
func booksOf(t *testing.T, ns string) []limpetv1alpha1.DisruptionBook {
	t.Helper()
	var list limpetv1alpha1.DisruptionBookList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// gameServers creates a workload of a kind of which only the scale is known.
func gameServers(t *testing.T, ns string, size int64) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "game", "namespace": ns}, "spec": map[string]any{"size": size},
	}}
	o.SetGroupVersionKind(testenv.GameServers)
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), o) }) // a new kind is served a moment later
	return o
}
