package validate_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	conversionwebhook "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/pin/validate"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1alpha1 "github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const hostname = corev1.LabelHostname

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env,
		limpetv1alpha1.AddToScheme, appsv1alpha1.AddToScheme, policyv1alpha1.AddToScheme, policyv1beta1.AddToScheme, apiextensionsv1.AddToScheme))
}

// served tells that the API server asks the webhooks.
var served bool

// serve has the API server ask the webhooks that validate, and the one that converts what
// they validate. They find the kinds that are named by reading past the cache.
func serve(t *testing.T) {
	t.Helper()
	if served {
		return
	}
	needs := []cluster.Needs{pincontroller.Needs(), workloads.Needs("limpet-system")}
	env.RunWebhooks(t, cluster.CacheOptions(needs...), func(mgr ctrl.Manager) (map[string]http.Handler, error) {
		reader := &workloads.Reader{
			Registry: workloads.NewRegistry(), Cached: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespaces: []string{"limpet-system"},
		}
		live := cluster.NewLiveReader(mgr.GetAPIReader(), cluster.LimitUnproven)
		state := &validate.PersistentPodState{Live: live, Cached: mgr.GetCache(), Workloads: reader}
		return map[string]http.Handler{
			validate.PersistentPodStatePath: admission.WithValidator(env.Scheme, state),
			serving.ConversionPath:          conversionwebhook.NewWebhookHandler(env.Scheme, mgr.GetConverterRegistry()),
			validate.WorkloadPath:           &admission.Webhook{Handler: &validate.Workload{Cached: mgr.GetCache(), Workloads: reader, MaxReservation: time.Hour}},
		}, cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs...)
	})
	served = true
	ns := env.Namespace(t)
	testenv.Eventually(t, func() error { // the API server takes a moment to know the webhooks
		probe := testenv.APersistentPodState("probe").In(ns).Requires("a,b").PersistentPodState
		return testenv.Refusal(env.Client.Create(t.Context(), probe, client.DryRunAll), "spec.requiredPersistentTopology")
	})
	testenv.Eventually(t, func() error {
		return env.Client.Create(t.Context(), testenv.AFormerPersistentPodState("probe", ns), client.DryRunAll)
	})
}

// asking asks that a workload's pods return.
func asking(ns, name string, kind schema.GroupVersionKind) *appsv1beta1.PersistentPodState {
	s := testenv.APersistentPodState(name).In(ns).Prefers(100, hostname).PersistentPodState
	s.Spec.TargetReference.APIVersion, s.Spec.TargetReference.Kind = kind.GroupVersion().String(), kind.Kind
	return s
}
