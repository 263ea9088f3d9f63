package creation_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	budgetadmit "github.com/limpet-io/limpet/internal/budget/admit"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/budget/guard"
	pinadmit "github.com/limpet-io/limpet/internal/pin/admit"
	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	rolloutadmit "github.com/limpet-io/limpet/internal/rollout/admit"
	spreadadmit "github.com/limpet-io/limpet/internal/spread/admit"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const hostname = corev1.LabelHostname

// namespaces are where further kinds of workload are named.
var namespaces = []string{"limpet-system", "kruise-system"}

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env,
		limpetv1alpha1.AddToScheme, appsv1alpha1.AddToScheme, appsv1beta1.AddToScheme, policyv1beta1.AddToScheme, apiextensionsv1.AddToScheme))
}

// serving is the manager whose webhooks the API server asks; nil before the first test
// that needs the webhooks.
var serving ctrl.Manager

// sightings is what the webhooks remember of deleted pods.
var sightings *cluster.Sightings

// registry is which kinds the webhooks know.
var registry *workloads.Registry

// serve has the API server ask the webhook of pods that are created, and no other.
func serve(t testing.TB) {
	t.Helper()
	if serving != nil {
		return
	}
	needs := []cluster.Needs{pincontroller.Needs(), workloads.Needs(namespaces...), spreadadmit.Needs()}
	all := append(slices.Clone(needs), disruption.Needs())
	serving = env.RunWebhooks(t, cluster.CacheOptions(all...), func(mgr ctrl.Manager) (map[string]http.Handler, error) {
		served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return nil, err
		}
		if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), all...); err != nil {
			return nil, err
		}
		reader := &workloads.Reader{
			Registry: workloads.NewRegistry(), Cached: mgr.GetClient(), Live: mgr.GetAPIReader(), Scales: mgr.GetClient(), Namespaces: namespaces,
		}
		registry = reader.Registry
		watcher := &workloads.Watcher{
			Registry: reader.Registry, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Discovery: served, Namespaces: namespaces,
			Events: mgr.GetEventRecorder("limpet-controller"), Clock: testenv.HastyClock{}, Elected: mgr.Elected(),
		}
		sightings = &cluster.Sightings{Clock: clock.RealClock{}, Retain: func(*corev1.Pod) time.Duration { return time.Hour }}
		if err := sightings.Follow(t.Context(), mgr.GetCache()); err != nil {
			return nil, err
		}
		pins := &pinadmit.Planner{Cached: mgr.GetCache(), Live: mgr.GetAPIReader(), LiveProven: mgr.GetAPIReader(), Workloads: reader, Sightings: sightings, Clock: clock.RealClock{}}
		handlers, err := serveSpreads(t, mgr, needs, reader, pins, &rolloutadmit.Planner{Workloads: reader}, budgetadmit.Planner{})
		if err == nil {
			handlers[disruption.GuardPath] = guardOf(mgr)
		}
		return handlers, errors.Join(err, watcher.SetupWithManager(mgr))
	})
	answers(t)
	filled(t, replicaCaches...)
}

// guardOf asks the budgets of namespaces with their label.
func guardOf(mgr ctrl.Manager) http.Handler {
	judge := disruption.NewJudge(disruption.Options{
		Reader: disruption.NewReader(mgr.GetCache(), mgr.GetClient()), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, User: testenv.ControllerUser,
		Books: books.New(books.Options{Client: mgr.GetClient(), Cached: mgr.GetCache(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}),
	})
	return &webhook.Admission{Handler: &guard.Handler{Judge: judge.Judge, Live: mgr.GetAPIReader()}}
}

// answers waits until the API server asks the webhook.
func answers(t testing.TB) {
	t.Helper()
	c, heard := env.Listen(t)
	ns := env.Namespace(t)
	testenv.Eventually(t, func() error {
		pod := testenv.APod("probe").In(ns).With(retainAnnotation, "soon").Pod
		if err := c.Create(t.Context(), pod, client.DryRunAll); err != nil {
			return err
		}
		return heard.Names(retainAnnotation)
	})
}

// put creates objects, and waits until the webhooks' cache has them.
func put(t *testing.T, objects ...client.Object) {
	t.Helper()
	serve(t)
	env.Create(t, objects...)
	for _, o := range objects {
		cached := o.DeepCopyObject().(client.Object)
		testenv.Eventually(t, func() error {
			if err := serving.GetCache().Get(t.Context(), client.ObjectKeyFromObject(o), cached); err != nil {
				return err
			}
			if cached.GetResourceVersion() != o.GetResourceVersion() {
				return fmt.Errorf("the cache has %T %s of another version", o, o.GetName())
			}
			return nil
		})
	}
}

// lived runs a pod on its node and deletes it, and waits until the webhooks have seen both.
func lived(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	put(t, pod)
	env.Remove(t, pod)
	key := client.ObjectKeyFromObject(pod)
	testenv.Eventually(t, func() error {
		if err := serving.GetCache().Get(t.Context(), key, &corev1.Pod{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get deleted pod: %w", err)
		}
		if last, err := sightings.Last(t.Context(), serving.GetCache(), key); err != nil || last == nil || last.UID != pod.UID {
			return fmt.Errorf("the pod is not remembered: %w", err)
		}
		return nil
	})
	return pod
}

// admitted makes a pod as its owner does, and returns what admission made of the pod.
func admitted(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	serve(t)
	if err := env.Client.Create(t.Context(), pod); err != nil {
		t.Fatalf("create pod: %v", err)
	}
	env.RemoveAtEnd(t, pod)
	return pod
}
