package upgrade_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/limpet-io/limpet/internal/controller/upgrade"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, appsv1alpha1.AddToScheme, apiextensionsv1.AddToScheme))
}

var states = []upgrade.CRD{{Name: testenv.ConvertedCRD, Stored: appsv1beta1.GroupVersion.WithKind("PersistentPodState")}}

// converting tells that the API server asks the conversion webhook.
var converting bool

// convert has the API server ask the conversion webhook, and restores the CRD when the
// test ends. It returns the CRD.
func convert(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	if !converting {
		env.RunWebhooks(t, cache.Options{}, func(mgr ctrl.Manager) (map[string]http.Handler, error) {
			return map[string]http.Handler{"/convert": conversion.NewWebhookHandler(mgr.GetScheme(), mgr.GetConverterRegistry())}, nil
		})
		converting = true
	}
	var crd apiextensionsv1.CustomResourceDefinition
	env.Read(t, client.ObjectKey{Name: testenv.ConvertedCRD}, &crd)
	return &crd
}

// An object that a former installation stored is rewritten, and loses nothing.
func TestObjectsOfAFormerInstallationAreMigrated(t *testing.T) {
	crd, ns := convert(t), env.Namespace(t)
	env.StoreFormerVersion(t, ns)
	former := testenv.AFormerPersistentPodState("former", ns)
	env.Create(t, former)
	env.ChangeCRD(t, func(now *apiextensionsv1.CustomResourceDefinition) { now.Spec = crd.Spec })

	mgr := env.NewManager(t, cache.Options{})
	migrator := &upgrade.Migrator{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), CRDs: states, Clock: clock.RealClock{}}
	if err := migrator.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	env.Start(t, mgr)
	env.StoredAs(t, "v1beta1")
	var state appsv1beta1.PersistentPodState
	env.Read(t, client.ObjectKeyFromObject(former), &state)
	var again appsv1alpha1.PersistentPodState
	if err := again.ConvertFrom(&state); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(former.Spec, again.Spec); diff != "" {
		t.Errorf("object of a former installation (-want +got):\n%s", diff)
	}
}

// The CRD follows the authority of the certificate, also when a user applies the CRD
// without an authority.
func TestTheAuthorityIsWrittenIntoTheCRD(t *testing.T) {
	crd := convert(t)
	mgr := env.NewManager(t, cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{"limpet-system": {}}},
	}})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "limpet-controller-certificate"}}
	authority := &upgrade.Authority{Client: mgr.GetClient(), Secret: client.ObjectKeyFromObject(secret), CRDs: states}
	if err := authority.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	stop := env.Start(t, mgr)
	defer func() {
		stop()
		env.ChangeCRD(t, func(now *apiextensionsv1.CustomResourceDefinition) { now.Spec = crd.Spec })
	}()
	first := env.Config.CAData
	secret.Data = map[string][]byte{"ca.crt": first}
	env.Create(t, secret)
	trusts(t, first)
	second := append(append([]byte{}, first...), first...)
	env.Change(t, secret, func() { secret.Data = map[string][]byte{"ca.crt": second} })
	trusts(t, second)
	env.ChangeCRD(t, func(now *apiextensionsv1.CustomResourceDefinition) {
		now.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
	})
	trusts(t, second)
}

// trusts waits until the CRD names an authority.
func trusts(t *testing.T, authority []byte) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var crd apiextensionsv1.CustomResourceDefinition
		env.Read(t, client.ObjectKey{Name: testenv.ConvertedCRD}, &crd)
		if diff := cmp.Diff(string(authority), string(crd.Spec.Conversion.Webhook.ClientConfig.CABundle)); diff != "" {
			return fmt.Errorf("authority (-want +got):\n%s", diff)
		}
		return nil
	})
}
