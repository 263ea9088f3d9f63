package validate_test

import (
	"context"
	"net/http"
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	conversionwebhook "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/limpet-io/limpet/internal/budget/validate"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/review"
	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
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
	budgets := cluster.Needs{Objects: []cluster.Need{cluster.Of[*policyv1beta1.PodUnavailableBudget]()}}
	needs := []cluster.Needs{budgets}
	env.RunWebhooks(t, cluster.CacheOptions(needs...), func(mgr ctrl.Manager) (map[string]http.Handler, error) {
		live := cluster.NewLiveReader(mgr.GetAPIReader(), cluster.LimitUnproven)
		budget := &validate.PodUnavailableBudget{
			Cached: mgr.GetCache(), Namespaces: review.NewNamespaces(live, mgr.GetClient(), clock.RealClock{}),
			Size: func(context.Context, *policyv1beta1.PodUnavailableBudget) (int32, error) { return 3, nil },
		}
		return map[string]http.Handler{
			validate.PodUnavailableBudgetPath: admission.WithValidator(env.Scheme, budget),
			validate.DistributedPath:          admission.WithValidator(env.Scheme, &validate.Distributed{Namespaces: budget.Namespaces}),
			serving.ConversionPath:            conversionwebhook.NewWebhookHandler(env.Scheme, mgr.GetConverterRegistry()),
		}, cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs...)
	})
	served = true
	ns := env.Namespace(t)
	testenv.Eventually(t, func() error {
		probe := ofSelector(ns, "probe")
		probe.Annotations = map[string]string{policyv1beta1.AnnotationVectors: "evict=No"}
		return testenv.Refusal(env.Client.Create(t.Context(), probe, client.DryRunAll), policyv1beta1.AnnotationVectors)
	})
	testenv.Eventually(t, func() error {
		return env.Client.Create(t.Context(), formerOfTarget(ns, "probe"), client.DryRunAll)
	})
}
