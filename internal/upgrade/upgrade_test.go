package upgrade_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/internal/upgrade"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	policyv1alpha1 "github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	// Its cache would show what a list was when it began, as long as the API server is not busy.
	os.Exit(testenv.MainWith(m, os.Getenv(testenv.AssetsVar), &env, map[string]string{"watch-cache": "false"},
		appsv1alpha1.AddToScheme, policyv1alpha1.AddToScheme, policyv1beta1.AddToScheme, apiextensionsv1.AddToScheme))
}

var crds = []upgrade.CRD{
	{Name: testenv.ConvertedCRD, Stored: appsv1beta1.GroupVersion.WithKind("PersistentPodState")},
	{Name: testenv.ConvertedSpreads, Stored: appsv1beta1.GroupVersion.WithKind("WorkloadSpread")},
	{Name: testenv.ConvertedBudgets, Stored: policyv1beta1.GroupVersion.WithKind("PodUnavailableBudget")},
}

// converting tells that the API server asks the conversion webhook.
var converting bool

// convert has the API server ask the conversion webhook. It returns a CRD.
func convert(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	if !converting {
		env.RunWebhooks(t, cache.Options{}, func(mgr ctrl.Manager) (map[string]http.Handler, error) {
			return map[string]http.Handler{"/convert": conversion.NewWebhookHandler(mgr.GetScheme(), mgr.GetConverterRegistry())}, nil
		})
		converting = true
	}
	var crd apiextensionsv1.CustomResourceDefinition
	env.Read(t, client.ObjectKey{Name: name}, &crd)
	return &crd
}

// An object that a former installation stored is rewritten, and loses nothing.
func TestObjectsOfAFormerInstallationAreMigrated(t *testing.T) {
	crd, ns := convert(t, testenv.ConvertedCRD), env.Namespace(t)
	env.StoreFormerVersion(t, ns)
	former := testenv.AFormerPersistentPodState("former", ns)
	env.Create(t, former)
	env.ChangeCRD(t, crd.Name, func(now *apiextensionsv1.CustomResourceDefinition) { now.Spec = crd.Spec })
	migrate(t)
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

// migrate runs the migrator until everything is stored in the current version.
func migrate(t *testing.T) {
	t.Helper()
	mgr := env.NewManager(t, cache.Options{})
	migrator := &upgrade.Migrator{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), CRDs: crds, Clock: clock.RealClock{}}
	if err := migrator.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	env.Start(t, mgr)
	env.StoredAs(t, "v1beta1")
}

// forgetful reads from an API server that forgets what a list was before each further page of it.
type forgetful struct {
	client.Reader
	forget  func()
	expired int
}

func (f *forgetful) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if options := (&client.ListOptions{}).ApplyOptions(opts); options.Continue != "" {
		f.forget()
	}
	err := f.Reader.List(ctx, list, opts...)
	if apierrors.IsResourceExpired(err) {
		f.expired++
	}
	return err
}

// A migration takes minutes, and the API server keeps the beginning of a list for five.
func TestAMigrationOutlivesTheListItReads(t *testing.T) {
	ns, crd := env.Namespace(t), convert(t, testenv.ConvertedCRD)
	for i := range upgrade.MigrationPage + 1 {
		env.Create(t, testenv.APersistentPodState(fmt.Sprintf("state-%03d", i)).In(ns).Requires(corev1.LabelHostname).PersistentPodState)
	}
	crd.Status.StoredVersions = []string{"v1alpha1", "v1beta1"}
	if err := env.Client.Status().Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	mgr := env.NewManager(t, cache.Options{})
	live := &forgetful{Reader: mgr.GetAPIReader(), forget: func() {
		later := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "later-"}}
		env.Create(t, later)
		env.Compact(t, later.ResourceVersion)
	}}
	migrator := &upgrade.Migrator{Client: mgr.GetClient(), Live: live, CRDs: crds[:1], Clock: clocktesting.NewFakeClock(time.Now())}
	if err := migrator.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	stop := env.Start(t, mgr)
	env.StoredAs(t, "v1beta1")
	stop()
	if live.expired == 0 {
		t.Error("the list never expired")
	}
}

// A budget of OpenKruise is rewritten too. An annotation that cannot be read hinders nothing.
func TestBudgetsOfAFormerInstallationAreMigrated(t *testing.T) {
	crd, ns := convert(t, testenv.ConvertedBudgets), env.Namespace(t)
	env.StoreFormerBudgets(t, ns)
	former := testenv.AFormerBudget("former", ns)
	env.Create(t, former)
	env.ChangeCRD(t, crd.Name, func(now *apiextensionsv1.CustomResourceDefinition) { now.Spec = crd.Spec })
	migrate(t)
	var budget policyv1beta1.PodUnavailableBudget
	env.Read(t, client.ObjectKeyFromObject(former), &budget)
	if diff := cmp.Diff([]policyv1beta1.Operation{"DELETE", "EVICT"}, budget.Spec.ProtectOperations); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	var again policyv1alpha1.PodUnavailableBudget
	env.Read(t, client.ObjectKeyFromObject(former), &again)
	want := testenv.AFormerBudget("former", ns)
	if diff := cmp.Diff(want.Spec, again.Spec) + cmp.Diff(want.Annotations, again.Annotations); diff != "" {
		t.Errorf("budget of a former installation (-want +got):\n%s", diff)
	}
}

// A spread of OpenKruise is rewritten too, with the status that OpenKruise wrote. It may have
// what the rules of the CRD refuse in new objects.
func TestSpreadsOfAFormerInstallationAreMigrated(t *testing.T) {
	crd, ns := convert(t, testenv.ConvertedSpreads), env.Namespace(t)
	env.StoreFormerSpreads(t, ns)
	former := testenv.AFormerSpread("former", ns)
	former.Spec.Subsets[1].MaxReplicas = new(intstr.FromInt32(4)) // not of the type of the first
	status := former.Status
	env.Create(t, former)
	former.Status = status
	if err := env.Client.Status().Update(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	env.ChangeCRD(t, crd.Name, func(now *apiextensionsv1.CustomResourceDefinition) { now.Spec = crd.Spec })
	migrate(t)
	var spread appsv1beta1.WorkloadSpread
	env.Read(t, client.ObjectKeyFromObject(former), &spread)
	var again appsv1alpha1.WorkloadSpread
	if err := again.ConvertFrom(&spread); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(former.Spec, again.Spec) + cmp.Diff(status, again.Status); diff != "" {
		t.Errorf("spread of a former installation (-want +got):\n%s", diff)
	}
}

// The CRD follows the authority of the certificate, also when a user applies the CRD
// without an authority.
func TestTheAuthorityIsWrittenIntoTheCRD(t *testing.T) {
	crd, spreads, budgets := convert(t, testenv.ConvertedCRD), convert(t, testenv.ConvertedSpreads), convert(t, testenv.ConvertedBudgets)
	mgr := env.NewManager(t, cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{"limpet-system": {}}},
	}})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "limpet-controller-certificate"}}
	authority := &upgrade.Authority{Client: mgr.GetClient(), Secret: client.ObjectKeyFromObject(secret), CRDs: crds}
	if err := authority.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	stop := env.Start(t, mgr)
	defer func() {
		stop()
		for _, before := range []*apiextensionsv1.CustomResourceDefinition{crd, spreads, budgets} {
			env.ChangeCRD(t, before.Name, func(now *apiextensionsv1.CustomResourceDefinition) { now.Spec = before.Spec })
		}
	}()
	first := env.Config.CAData
	secret.Data = map[string][]byte{"ca.crt": first}
	env.Create(t, secret)
	trusts(t, first)
	second := append(append([]byte{}, first...), first...)
	env.Change(t, secret, func() { secret.Data = map[string][]byte{"ca.crt": second} })
	trusts(t, second)
	env.ChangeCRD(t, crd.Name, func(now *apiextensionsv1.CustomResourceDefinition) {
		now.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
	})
	trusts(t, second)
}

// trusts waits until the CRD names an authority.
func trusts(t *testing.T, authority []byte) {
	t.Helper()
	testenv.Eventually(t, func() error {
		for _, name := range []string{testenv.ConvertedCRD, testenv.ConvertedSpreads, testenv.ConvertedBudgets} {
			var crd apiextensionsv1.CustomResourceDefinition
			env.Read(t, client.ObjectKey{Name: name}, &crd)
			if diff := cmp.Diff(string(authority), string(crd.Spec.Conversion.Webhook.ClientConfig.CABundle)); diff != "" {
				return fmt.Errorf("authority of %s (-want +got):\n%s", name, diff)
			}
		}
		return nil
	})
}
