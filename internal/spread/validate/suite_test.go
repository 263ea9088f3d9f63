package validate_test

import (
	"net/http"
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	conversionwebhook "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/review"
	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/spread/validate"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1alpha1 "github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

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
	spreads := cluster.Needs{
		Objects: []cluster.Need{cluster.Of[*appsv1beta1.WorkloadSpread]()},
		Indexes: []cluster.Index{cluster.SpreadsByTarget()},
	}
	needs := []cluster.Needs{workloads.Needs("limpet-system"), spreads}
	env.RunWebhooks(t, cluster.CacheOptions(needs...), func(mgr ctrl.Manager) (map[string]http.Handler, error) {
		reader := &workloads.Reader{
			Registry: workloads.NewRegistry(), Cached: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespaces: []string{"limpet-system"},
		}
		live := cluster.NewLiveReader(mgr.GetAPIReader(), cluster.LimitUnproven)
		spread := &validate.WorkloadSpread{
			Live: live, Cached: mgr.GetCache(),
			Namespaces: review.NewNamespaces(live, mgr.GetClient(), clock.RealClock{}), Workloads: reader,
		}
		return map[string]http.Handler{
			validate.WorkloadSpreadPath: admission.WithValidator(env.Scheme, spread),
			serving.ConversionPath:      conversionwebhook.NewWebhookHandler(env.Scheme, mgr.GetConverterRegistry()),
		}, cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs...)
	})
	served = true
	ns := env.Namespace(t)
	testenv.Eventually(t, func() error {
		probe := ofSubsets(ns, "probe", func(s *spread) { s.Annotations[appsv1beta1.AnnotationSpreadFailure] = "Ajar" })
		return testenv.Refusal(env.Client.Create(t.Context(), probe, client.DryRunAll), appsv1beta1.AnnotationSpreadFailure)
	})
	testenv.Eventually(t, func() error {
		return env.Client.Create(t.Context(), testenv.AFormerSpread("probe", ns), client.DryRunAll)
	})
}
