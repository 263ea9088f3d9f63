package upgrade_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/internal/upgrade"
)

// ours is the service that deploy/crds names, with what the API server adds.
var ours = apiextensionsv1.ServiceReference{
	Namespace: "limpet-system", Name: "limpet-controller-conversion", Path: new("/convert"), Port: new(int32(443)),
}

// kruise writes the conversion of OpenKruise's manager into CRDs. It was seen to choose those that
// have a webhook and whose first version is one of its own.
type kruise struct{ authority []byte }

func (k kruise) conversion() *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: k.authority, Service: &apiextensionsv1.ServiceReference{
			Namespace: "kruise-system", Name: "kruise-webhook-service", Path: new("/convert"), Port: new(int32(443)),
		}},
		ConversionReviewVersions: []string{"v1", "v1beta1"},
	}}
}

// sync does what the manager does at each event of a CRD and each minute.
func (k kruise) sync(t *testing.T) {
	t.Helper()
	for _, of := range crds {
		env.ChangeCRD(t, of.Name, func(crd *apiextensionsv1.CustomResourceDefinition) {
			own := crd.Spec.Versions[0].Name == "v1alpha1" || crd.Spec.Versions[0].Name == "v1beta1"
			if crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter && own {
				crd.Spec.Conversion = k.conversion()
			}
		})
	}
}

// install applies deploy/crds to an API server of the test, and starts the reconciler.
func install(t *testing.T) (authority []byte) {
	t.Helper()
	testenv.Beside(t, &env)
	for _, of := range crds {
		manifest := env.ManifestCRD(t, of.Name)
		env.ChangeCRD(t, of.Name, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec = manifest.Spec })
	}
	mgr := env.NewManager(t, cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{"limpet-system": {}}},
	}})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "limpet-controller-certificate"},
		Data:       map[string][]byte{"ca.crt": env.Config.CAData},
	}
	r := &upgrade.Authority{Client: mgr.GetClient(), Secret: client.ObjectKeyFromObject(secret), Service: ours, CRDs: crds}
	if err := r.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	env.Start(t, mgr)
	env.Create(t, secret)
	convertsHere(t)
	return secret.Data["ca.crt"]
}

// convertsHere waits until all CRDs convert through the service of Limpet.
func convertsHere(t *testing.T) {
	t.Helper()
	want := &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: env.Config.CAData, Service: &ours}, ConversionReviewVersions: []string{"v1"},
	}}
	testenv.Eventually(t, func() error {
		for _, of := range crds {
			if diff := cmp.Diff(want, read(t, of.Name).Spec.Conversion); diff != "" {
				return fmt.Errorf("conversion of %s (-want +got):\n%s", of.Name, diff)
			}
		}
		return nil
	})
}

func read(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	env.Read(t, client.ObjectKey{Name: name}, &crd)
	return &crd
}

// TestBesideOpenKruise has one API server for all that changes CRDs.
func TestBesideOpenKruise(t *testing.T) {
	authority := install(t)
	t.Run("it leaves the conversion alone", func(t *testing.T) { leavesAlone(t, authority) })
	t.Run("a foreign conversion is replaced", func(t *testing.T) { isReplaced(t, authority) })
	t.Run("it stops no pod of Limpet", stopsNoPod)
	t.Run("a foreign CRD is told", func(t *testing.T) { isTold(t, authority) }) // and stays
}

// The manager of OpenKruise and the controller do not write the conversion of a CRD in turn.
func leavesAlone(t *testing.T, authority []byte) {
	before := read(t, testenv.ConvertedCRD).Generation
	for range 5 {
		kruise{append(authority, '\n')}.sync(t)
		convertsHere(t)
	}
	if now := read(t, testenv.ConvertedCRD).Generation; now != before {
		t.Errorf("generation %d, want %d as before", now, before)
	}
}

// The conversion of a CRD of Limpet's comes back, whatever another program wrote.
func isReplaced(t *testing.T, authority []byte) {
	for name, foreign := range map[string]*apiextensionsv1.CustomResourceConversion{
		"of OpenKruise": kruise{authority}.conversion(),
		"none":          {Strategy: apiextensionsv1.NoneConverter},
	} {
		t.Run(name, func(t *testing.T) {
			for _, of := range crds {
				env.ChangeCRD(t, of.Name, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Conversion = foreign })
			}
			convertsHere(t)
		})
	}
}

// A CRD that another program has replaced is told, and stays: two programs would replace it in turn.
func isTold(t *testing.T, authority []byte) {
	for _, of := range crds {
		env.ChangeCRD(t, of.Name, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions, crd.Spec.Conversion = crd.Spec.Versions[1:], kruise{authority}.conversion()
		})
	}
	before := failures(t)
	env.ChangeCRD(t, testenv.ConvertedCRD, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Conversion.Webhook.ConversionReviewVersions = []string{"v1"}
	})
	testenv.Eventually(t, func() error {
		if now := failures(t); now < before+3 {
			return fmt.Errorf("%v failures, %v before", now, before)
		}
		return nil
	})
	if now := read(t, testenv.ConvertedBudgets).Spec.Conversion; !equality.Semantic.DeepEqual(now, kruise{authority}.conversion()) {
		t.Errorf("conversion %v", now)
	}
}

// failures is how often the reconciler has failed.
func failures(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "controller_runtime_reconcile_errors_total" && m.Label[0].GetValue() == "conversion-authority" {
				return m.Counter.GetValue()
			}
		}
	}
	return 0
}

// Webhooks of OpenKruise that do not answer stop pods, and none of limpet-system.
func stopsNoPod(t *testing.T) {
	for _, o := range env.Render(t, "deploy/namespace") {
		if err := env.Client.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	tenant := env.Namespace(t)
	env.Create(t, deadWebhooks())
	pod := func(namespace string) error {
		p := testenv.APod("p").In(namespace).Pod
		if err := env.Client.Create(t.Context(), p); err != nil {
			return err
		}
		return env.Client.Delete(t.Context(), p)
	}
	testenv.Eventually(t, func() error {
		if pod(tenant) == nil {
			return errors.New("the webhooks are not asked yet")
		}
		return nil
	})
	if err := pod("limpet-system"); err != nil {
		t.Error(err)
	}
}

// deadWebhooks are OpenKruise's webhooks for pods without a manager: as in its sources, which leave out
// each namespace with the label, and as in its chart, which leaves out one value.
func deadWebhooks() *admissionv1.ValidatingWebhookConfiguration {
	all := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "kruise-validating-webhook-configuration"}}
	for name, leftOut := range map[string]metav1.LabelSelectorRequirement{
		"sources.kb.io": {Key: "control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
		"chart.kb.io":   {Key: "control-plane", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"openkruise"}},
	} {
		all.Webhooks = append(all.Webhooks, admissionv1.ValidatingWebhook{
			Name: name, AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
			ClientConfig:      admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "kruise-system", Name: "kruise-webhook-service"}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{leftOut}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		})
	}
	return all
}
